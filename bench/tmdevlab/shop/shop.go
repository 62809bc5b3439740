// Package shop does the work of the three tools. All Go servers use it, so that they differ only in their MCP library.
package shop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Descriptions of the tools.
const (
	SearchText   = "Search products by category and price, with their rank among the popular ones"
	CartText     = "Show the cart of a user and the last orders"
	CheckoutText = "Check a cart out: compute the total, count the order and remember it"
)

// Parley reads the tags doc and default, the other libraries read jsonschema.

type SearchArgs struct {
	Category string  `json:"category,omitempty" default:"Electronics" doc:"category of the products" jsonschema:"category of the products"`
	MinPrice float64 `json:"min_price,omitempty" default:"50" doc:"lowest price" jsonschema:"lowest price"`
	MaxPrice float64 `json:"max_price,omitempty" default:"500" doc:"highest price" jsonschema:"highest price"`
	Limit    int     `json:"limit,omitempty" default:"10" doc:"maximum number of products" jsonschema:"maximum number of products"`
}

type SearchResult struct {
	Category   string   `json:"category"`
	TotalFound int      `json:"total_found"`
	Products   []Ranked `json:"products"`
	Popular    []int    `json:"top10_popular_ids"`
	ServerType string   `json:"server_type"`
}

type Ranked struct {
	ID     int     `json:"id"`
	SKU    string  `json:"sku"`
	Name   string  `json:"name"`
	Price  float64 `json:"price"`
	Rating float64 `json:"rating"`
	Rank   int     `json:"popularity_rank"`
}

type CartArgs struct {
	UserID string `json:"user_id,omitempty" default:"user-00042" doc:"id of the user" jsonschema:"id of the user"`
}

type CartResult struct {
	UserID     string  `json:"user_id"`
	Cart       Cart    `json:"cart"`
	History    []Order `json:"recent_history"`
	ServerType string  `json:"server_type"`
}

type Cart struct {
	Items []CartItem `json:"items"`
	Count int        `json:"item_count"`
	Total float64    `json:"estimated_total"`
}

type CartItem struct {
	ProductID int `json:"product_id"`
	Quantity  int `json:"qty"`
}

// Order is an order in the history of a user.
type Order struct {
	ID        string  `json:"order_id"`
	ProductID int     `json:"product_id,omitempty"`
	Quantity  int     `json:"qty,omitempty"`
	Price     float64 `json:"price,omitempty"`
	Items     []Item  `json:"items,omitempty"`
	Time      int64   `json:"ts"`
}

type CheckoutArgs struct {
	UserID string `json:"user_id,omitempty" default:"user-00042" doc:"id of the user" jsonschema:"id of the user"`
	Items  []Item `json:"items,omitempty" doc:"what to buy" jsonschema:"what to buy"`
}

type Item struct {
	ProductID int `json:"product_id" doc:"number of the product" jsonschema:"number of the product"`
	Quantity  int `json:"quantity" doc:"how many" jsonschema:"how many"`
}

type CheckoutResult struct {
	OrderID    string  `json:"order_id"`
	UserID     string  `json:"user_id"`
	Total      float64 `json:"total"`
	Count      int     `json:"items_count"`
	RateLimit  int64   `json:"rate_limit_count"`
	Status     string  `json:"status"`
	ServerType string  `json:"server_type"`
}

// Work uses Redis and the HTTP service.
type Work struct {
	name  string
	api   string
	http  *http.Client
	redis *redis.Client
}

// New returns the work of the server called name.
func New(name, api, redisAddr string) *Work {
	return &Work{
		name: name, api: api,
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			MaxIdleConns: 200, MaxIdleConnsPerHost: 100, IdleConnTimeout: 90 * time.Second,
		}},
		redis: redis.NewClient(&redis.Options{Addr: redisAddr, PoolSize: 64}),
	}
}

// Search sends GET and ZREVRANGE concurrently.
func (w *Work) Search(ctx context.Context, in SearchArgs) (SearchResult, error) {
	in.Category = or(in.Category, "Electronics")
	in.MinPrice, in.MaxPrice, in.Limit = or(in.MinPrice, 50), or(in.MaxPrice, 500), or(in.Limit, 10)
	var members []string
	var redisErr error
	var wg sync.WaitGroup
	wg.Go(func() { members, redisErr = w.redis.ZRevRange(ctx, "bench:popular", 0, 9).Result() })
	var found struct {
		TotalFound int      `json:"total_found"`
		Products   []Ranked `json:"products"`
	}
	q := url.Values{
		"category":  {in.Category},
		"min_price": {strconv.FormatFloat(in.MinPrice, 'f', -1, 64)},
		"max_price": {strconv.FormatFloat(in.MaxPrice, 'f', -1, 64)},
		"limit":     {strconv.Itoa(in.Limit)},
	}
	err := w.call(ctx, http.MethodGet, "/products/search?"+q.Encode(), nil, &found)
	wg.Wait()
	if err := errors.Join(err, redisErr); err != nil {
		return SearchResult{}, err
	}
	popular := make([]int, 0, len(members))
	rank := make(map[int]int, len(members))
	for _, m := range members {
		if id, err := strconv.Atoi(strings.TrimPrefix(m, "product:")); err == nil {
			popular = append(popular, id)
			rank[id] = len(popular)
		}
	}
	for i := range found.Products {
		found.Products[i].Rank = rank[found.Products[i].ID]
	}
	return SearchResult{in.Category, found.TotalFound, found.Products, popular, w.name}, nil
}

// Cart sends HGETALL, then GET and LRANGE concurrently.
func (w *Work) Cart(ctx context.Context, in CartArgs) (CartResult, error) {
	in.UserID = or(in.UserID, "user-00042")
	hash, err := w.redis.HGetAll(ctx, "bench:cart:"+in.UserID).Result()
	if err != nil {
		return CartResult{}, err
	}
	items := []CartItem{}
	if text := hash["items"]; text != "" {
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			return CartResult{}, err
		}
	}
	first := 1
	if len(items) > 0 {
		first = items[0].ProductID
	}
	var entries []string
	var redisErr error
	var wg sync.WaitGroup
	wg.Go(func() { entries, redisErr = w.redis.LRange(ctx, "bench:history:"+in.UserID, 0, 4).Result() })
	var product struct {
		Name string `json:"name"`
	}
	err = w.call(ctx, http.MethodGet, "/products/"+strconv.Itoa(first), nil, &product)
	wg.Wait()
	if err := errors.Join(err, redisErr); err != nil {
		return CartResult{}, err
	}
	history := make([]Order, len(entries))
	for i, e := range entries {
		if err := json.Unmarshal([]byte(e), &history[i]); err != nil {
			return CartResult{}, err
		}
	}
	total, _ := strconv.ParseFloat(hash["total"], 64)
	return CartResult{in.UserID, Cart{items, len(items), total}, history, w.name}, nil
}

// Checkout sends POST and, concurrently, INCR, RPUSH and ZINCRBY in one pipeline.
func (w *Work) Checkout(ctx context.Context, in CheckoutArgs) (CheckoutResult, error) {
	in.UserID = or(in.UserID, "user-00042")
	if len(in.Items) == 0 {
		in.Items = []Item{{42, 2}, {1337, 1}}
	}
	number, err := strconv.Atoi(in.UserID[strings.LastIndexByte(in.UserID, '-')+1:])
	if err != nil {
		number = 42
	}
	now := time.Now().Unix()
	order, err := json.Marshal(Order{ID: fmt.Sprintf("ORD-%s-%d", in.UserID, now), Items: in.Items, Time: now})
	if err != nil {
		return CheckoutResult{}, err
	}
	var count *redis.IntCmd
	var redisErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		_, redisErr = w.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			count = p.Incr(ctx, fmt.Sprintf("bench:ratelimit:user-%05d", number%100))
			p.RPush(ctx, "bench:history:"+in.UserID, order)
			p.ZIncrBy(ctx, "bench:popular", 1, fmt.Sprintf("product:%d", in.Items[0].ProductID))
			return nil
		})
	})
	var sum struct {
		OrderID string  `json:"order_id"`
		Total   float64 `json:"total"`
	}
	err = w.call(ctx, http.MethodPost, "/cart/calculate", in, &sum)
	wg.Wait()
	if err := errors.Join(err, redisErr); err != nil {
		return CheckoutResult{}, err
	}
	return CheckoutResult{sum.OrderID, in.UserID, sum.Total, len(in.Items), count.Val(), "confirmed", w.name}, nil
}

func (w *Work) call(ctx context.Context, method, path string, body, into any) error {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.api+path, r)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return json.Unmarshal(b, into)
}

// or returns v, or a default if v is zero.
func or[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}

var (
	addr  = flag.String("addr", "127.0.0.1:8081", "address to serve on")
	admin = flag.String("admin", "", "address for /debug/pprof, by default none")
	api   = flag.String("api", "http://127.0.0.1:8100", "URL of the HTTP service")
	store = flag.String("redis", "127.0.0.1:6379", "address of Redis")
)

// Parse reads the command line, which is the same for all servers, and returns the work and the address of Redis.
func Parse(name string) (*Work, string) {
	flag.Parse()
	return New(name, *api, *store), *store
}

// Serve serves MCP at /mcp until the process is killed.
func Serve(mcp http.Handler) {
	if *admin != "" {
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		go func() { log.Fatal(http.ListenAndServe(*admin, mux)) }()
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	s := &http.Server{Addr: *addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	log.Fatal(s.ListenAndServe())
}
