//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

// services are the programs that the tools of every server use.
type services struct {
	api, redis         *process
	apiAddr, redisAddr string
	log                *os.File
}

var logName = filepath.Join(output, "log")

func startServices() (s *services, err error) {
	s = new(services)
	if s.log, err = os.Create(logName); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.apiAddr, err = freeAddr(); err != nil {
		return nil, err
	}
	if s.redisAddr, err = freeAddr(); err != nil {
		return nil, err
	}
	program := *redisPath
	if program == "" {
		program = "../../.tools/servers/redis-server"
		if _, err := os.Stat(program); err != nil {
			if program, err = exec.LookPath("redis-server"); err != nil {
				return nil, fmt.Errorf("%w: run scripts/tools, or name a redis-server with -redis", err)
			}
		}
	}
	_, port, err := net.SplitHostPort(s.redisAddr)
	if err != nil {
		return nil, err
	}
	s.redis, err = start(*driverCPU, s.log, program, "--port", port, "--bind", "127.0.0.1", "--save", "",
		"--appendonly", "no", "--maxmemory", "512mb", "--maxmemory-policy", "noeviction")
	if err != nil {
		return nil, err
	}
	s.api, err = start(*driverCPU, s.log, filepath.Join(output, "api"), "-addr", s.apiAddr)
	if err != nil {
		return nil, err
	}
	return s, s.api.awaitHealth(s.apiAddr)
}

func (s *services) stop() {
	for _, p := range []*process{s.api, s.redis} {
		if p != nil {
			p.stop()
		}
	}
	_ = s.log.Close()
}

// each starts the chosen servers one after another and calls do with each. Redis contains the same data for each. The
// server that comes first rotates with the round.
func (s *services) each(round int, do func(c contender, p *process, addr, admin string) error) error {
	var chosen []contender
	for _, c := range contenders {
		if *only == "" || strings.Contains(","+*only+",", ","+c.name+",") {
			chosen = append(chosen, c)
		}
	}
	for i := range chosen {
		c := chosen[(i+round*len(chosen)/max(*rounds, 1))%len(chosen)]
		if err := seed(context.Background(), s.redisAddr); err != nil {
			return fmt.Errorf("cannot fill Redis: %w", err)
		}
		if err := s.with(c, do); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// with starts one server, calls do, and stops the server.
func (s *services) with(c contender, do func(c contender, p *process, addr, admin string) error) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	admin, err := freeAddr()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.log, "--- %s\n", c.name)
	p, err := start(*serverCPU, s.log, append(c.command[:len(c.command):len(c.command)],
		"--addr", addr, "--admin", admin, "--api", "http://"+s.apiAddr, "--redis", s.redisAddr)...)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := p.awaitHealth(addr); err != nil {
		return err
	}
	return do(c, p, addr, admin)
}

// seed replaces the data in Redis: 10,000 carts, 1,000 histories of 20 orders, 100,000 popular products, 100 counters.
func seed(ctx context.Context, addr string) error {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	if err := c.FlushDB(ctx).Err(); err != nil {
		return err
	}
	type item struct {
		ID  int `json:"product_id"`
		Qty int `json:"qty"`
	}
	type order struct {
		Order string  `json:"order_id"`
		ID    int     `json:"product_id"`
		Qty   int     `json:"qty"`
		Price float64 `json:"price"`
		Time  int     `json:"ts"`
	}
	const products = 100_000
	fill := func(from, to int, add func(p redis.Pipeliner, n int)) error {
		for ; from <= to; from += 1000 {
			if _, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for n := from; n <= min(to, from+999); n++ {
					add(p, n)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(1, 10_000, func(p redis.Pipeliner, n int) {
		items := []item{{n*7%products + 1, 1 + n%3}, {n*13%products + 1, 1 + n%2}}
		if n%3 == 0 {
			items = append(items, item{n*17%products + 1, 1})
		}
		total := 0.0
		for _, it := range items {
			total += float64(it.Qty*(it.ID*100%9_999+1)) / 100
		}
		text, _ := json.Marshal(items)
		user := fmt.Sprintf("user-%05d", n)
		p.HSet(ctx, "bench:cart:"+user, "user_id", user, "items", text,
			"created", "1740000000", "expires", "1740086400", "total", fmt.Sprintf("%.2f", total))
	}); err != nil {
		return err
	}
	if err := fill(1, 1_000, func(p redis.Pipeliner, n int) {
		var entries []any
		for j := 1; j <= 20; j++ {
			text, _ := json.Marshal(order{fmt.Sprintf("ORD-%05d-%02d", n, j), n*j*7%products + 1, 1 + j%3,
				math.Round(float64(n*j*13%9_999+1)) / 100, 1_740_000_000 + n*86_400 + j*3_600})
			entries = append(entries, text)
		}
		p.RPush(ctx, fmt.Sprintf("bench:history:user-%05d", n), entries...)
	}); err != nil {
		return err
	}
	if err := fill(1, products, func(p redis.Pipeliner, n int) {
		p.ZAdd(ctx, "bench:popular", redis.Z{Score: float64(n * 7 % 10_000), Member: fmt.Sprintf("product:%d", n)})
	}); err != nil {
		return err
	}
	return fill(1, 100, func(p redis.Pipeliner, n int) {
		p.Set(ctx, fmt.Sprintf("bench:ratelimit:user-%05d", n), 0, 0)
	})
}
