package redisstore

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DefaultPrefix is the default of [Options].Prefix.
const DefaultPrefix = "parley:"

// With few connections, the operations of a busy server share round trips; with more than one, a long value delays only
// some of them. In a cluster, each operation uses its own connection.
const defaultConns, defaultClusterConns = 4, 16

// Options say how to reach Redis. Addrs is required.
type Options struct {
	// Addrs are addresses in the form host:port: of the Redis server; of Sentinels, if
	// MasterName is set; or of some servers of the cluster, if Cluster is set.
	Addrs []string

	// MasterName is the name of the server among those that the Sentinels watch.
	MasterName string

	// Cluster says that the servers form a cluster.
	Cluster bool

	// Username and Password authenticate at the Redis servers, SentinelUsername and
	// SentinelPassword at the Sentinels.
	Username, Password                 string
	SentinelUsername, SentinelPassword string

	// DB is the number of the database. It must be 0 in a cluster.
	DB int

	// TLS, if not nil, encrypts all connections.
	TLS *tls.Config

	// Prefix is the beginning of every key and channel. Servers with the same prefix share
	// their state, so each program needs its own prefix. It must not contain braces. Empty
	// means DefaultPrefix, which is for one program.
	Prefix string

	// Conns is the maximum number of connections to each Redis server, in addition to one
	// for subscriptions. 0 means 4, or 16 in a cluster. Operations that wait for a connection
	// share the next round trip; in a cluster, each uses a connection for one round trip.
	Conns int

	// AllowEviction permits a maxmemory-policy other than noeviction.
	AllowEviction bool
}

// ParseURL returns the options in a URL such as
//
//	redis://user:password@host:6379/0
//	rediss://host:6379                                     with TLS
//	redis://host:26379/0?master=mymaster&addr=host2:26379  through Sentinels
//	redis://host:6379?cluster=true&addr=host2:6379         a cluster
//
// The parameters are master, cluster, prefix, conns, allow-eviction, and addr, which can
// occur more than once.
func ParseURL(text string) (Options, error) {
	u, err := url.Parse(text)
	if err != nil {
		var reason *url.Error
		if errors.As(err, &reason) {
			err = reason.Err // the URL may contain a password
		}
		return Options{}, fmt.Errorf("redisstore: cannot parse URL: %w", err)
	}
	var o Options
	switch u.Scheme {
	case "redis":
	case "rediss":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12} // each server is verified by the name in its address
	default:
		return Options{}, fmt.Errorf("redisstore: scheme of the URL must be redis or rediss, got %q", u.Scheme)
	}
	if u.Hostname() == "" {
		return Options{}, errors.New("redisstore: URL must have a host")
	}
	o.Addrs = []string{u.Host}
	if u.Port() == "" {
		o.Addrs[0] += ":6379"
	}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	if db := strings.TrimPrefix(u.Path, "/"); db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil {
			return Options{}, fmt.Errorf("redisstore: path of the URL must be the number of a database, got %q", u.Path)
		}
	}
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "addr":
			o.Addrs = append(o.Addrs, values...)
		case "master":
			o.MasterName = value
		case "prefix":
			o.Prefix = value
		case "cluster":
			o.Cluster, err = strconv.ParseBool(value)
		case "allow-eviction":
			o.AllowEviction, err = strconv.ParseBool(value)
		case "conns":
			o.Conns, err = strconv.Atoi(value)
		default:
			return Options{}, fmt.Errorf("redisstore: unknown parameter %q in the URL", name)
		}
		if err != nil {
			return Options{}, fmt.Errorf("redisstore: cannot parse parameter %s of the URL: %w", name, err)
		}
	}
	return o, o.check()
}

func (o *Options) check() error {
	switch {
	case len(o.Addrs) == 0:
		return errors.New("redisstore: Addrs must have an address")
	case o.Cluster && o.MasterName != "":
		return errors.New("redisstore: Cluster and MasterName must not both be set")
	case len(o.Addrs) > 1 && !o.Cluster && o.MasterName == "":
		return errors.New("redisstore: several addresses need MasterName, for Sentinels, or Cluster")
	case o.Cluster && o.DB != 0:
		return fmt.Errorf("redisstore: DB must be 0 in a cluster, got %d", o.DB)
	case o.DB < 0:
		return fmt.Errorf("redisstore: DB must not be negative, got %d", o.DB)
	case o.Conns < 0:
		return fmt.Errorf("redisstore: Conns must not be negative, got %d", o.Conns)
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("redisstore: Prefix must not contain braces, got %q", o.Prefix)
	}
	return nil
}

// Time-outs of the network. The deadline of a context applies if it is earlier.
const (
	dialTimeout = 3 * time.Second
	ioTimeout   = 5 * time.Second
)

func (o *Options) conns() int {
	if o.Cluster {
		return cmp.Or(o.Conns, defaultClusterConns)
	}
	return cmp.Or(o.Conns, defaultConns)
}

func (o *Options) client() redis.UniversalClient {
	u := &redis.UniversalOptions{
		Addrs: o.Addrs, MasterName: o.MasterName, DB: o.DB,
		Username: o.Username, Password: o.Password, SentinelUsername: o.SentinelUsername,
		SentinelPassword: o.SentinelPassword,
		TLSConfig:        o.TLS, Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DialTimeout:              dialTimeout, DialerRetries: 1, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout,
		ContextTimeoutEnabled: true,
		PoolSize:              o.conns(), PipelinePoolSize: -1,
	}
	switch {
	case o.MasterName != "":
		return redis.NewFailoverClient(u.Failover())
	case o.Cluster:
		cluster := u.Cluster()
		cluster.DisableRoutingPolicies = true // every command uses one key, or runs on a server of our choice
		return redis.NewClusterClient(cluster)
	default:
		return redis.NewClient(u.Simple())
	}
}
