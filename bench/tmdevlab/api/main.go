// Command api is the HTTP service that the tools use. It knows 100,000 products, and keeps them in memory.
//
//	GET  /products/search?category=&min_price=&max_price=&limit=
//	GET  /products/{id}
//	POST /cart/calculate
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
)

const count = 100_000

type product struct {
	ID          int      `json:"id"`
	SKU         string   `json:"sku"`
	Name        string   `json:"name"`
	Category    string   `json:"category"`
	Brand       string   `json:"brand"`
	Price       float64  `json:"price"`
	Stock       int      `json:"stock"`
	Rating      float32  `json:"rating"`
	Tags        []string `json:"tags"`
	Weight      float64  `json:"weight"`
	Description string   `json:"description"`
}

var (
	categories = strings.Fields(`Electronics Books Garments Sports Kitchen Garden Toys Groceries Cosmetics Vehicles
		Music Films Games Stationery Health Animals Travel Tools Jewels Infants`)
	brands = strings.Fields(`Alder Birch Cedar Dogwood Elm Fir Ginkgo Hazel Ivy Juniper Kapok Larch Maple Nutmeg Oak
		Poplar Quince Rowan Spruce Teak Umbrella Violet Willow Xylo Yew Zelkova Amber Beryl Coral Diamond Emerald
		Flint Garnet Halite Iolite Jade Kyanite Lapis Mica Nephrite Onyx Pearl Quartz Ruby Sapphire Topaz Ulexite
		Vesuvian Wulfen Zircon`)
	tags = strings.Fields("offer fresh chosen loved remnant scarce trending special")
)

func cents(f float64) float64 { return math.Round(f*100) / 100 }

func catalogue() (all []product, byPrice map[string][]*product) {
	all = make([]product, count)
	byPrice = map[string][]*product{}
	for i := range all {
		category, brand := categories[i%20], brands[i%50]
		p := &all[i]
		*p = product{
			ID: i + 1, SKU: fmt.Sprintf("SKU-%06d", i+1), Name: fmt.Sprintf("%s %s Item %d", brand, category, i+1),
			Category: category, Brand: brand, Price: 1 + float64(i%99_900)/100, Stock: i % 501,
			Rating: 1 + float32(i%40)/10, Weight: cents(float64(1+i%100) / 10),
			Description: fmt.Sprintf("Quality %s by %s. SKU %06d.", category, brand, i+1),
		}
		for j := range 2 + i%3 {
			p.Tags = append(p.Tags, tags[(i+j)%len(tags)])
		}
		byPrice[category] = append(byPrice[category], p)
	}
	for _, ps := range byPrice {
		slices.SortStableFunc(ps, func(a, b *product) int { return cmp.Compare(a.Price, b.Price) })
	}
	return all, byPrice
}

func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8100", "address to serve on")
	flag.Parse()
	all, byPrice := catalogue()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { answer(w, "ok") })
	mux.HandleFunc("GET /products/search", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		low, _ := strconv.ParseFloat(q.Get("min_price"), 64)
		high, err := strconv.ParseFloat(q.Get("max_price"), 64)
		if err != nil || high == 0 {
			high = math.MaxFloat64
		}
		limit, err := strconv.Atoi(q.Get("limit"))
		if err != nil || limit <= 0 || limit > 1000 {
			limit = 10
		}
		ps := byPrice[q.Get("category")]
		from := sort.Search(len(ps), func(i int) bool { return ps[i].Price >= low })
		to := sort.Search(len(ps), func(i int) bool { return ps[i].Price > high })
		found := ps[min(from, to):to]
		answer(w, struct {
			Category   string     `json:"category"`
			TotalFound int        `json:"total_found"`
			Products   []*product `json:"products"`
		}{q.Get("category"), len(found), found[:min(limit, len(found))]})
	})
	mux.HandleFunc("GET /products/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil || id < 1 || id > count {
			http.NotFound(w, r)
			return
		}
		answer(w, all[id-1])
	})
	mux.HandleFunc("POST /cart/calculate", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			UserID string `json:"user_id"`
			Items  []struct {
				ProductID int `json:"product_id"`
				Quantity  int `json:"quantity"`
			} `json:"items"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		sum := 0.0
		for _, it := range in.Items {
			if it.ProductID >= 1 && it.ProductID <= count {
				sum += all[it.ProductID-1].Price * float64(it.Quantity)
			}
		}
		sum = cents(sum)
		tax, shipping, discount := cents(sum*0.085), 5.99, 0.0
		if sum >= 100 {
			shipping, discount = 0, cents(sum*0.1)
		}
		answer(w, struct {
			OrderID  string  `json:"order_id"`
			UserID   string  `json:"user_id"`
			Subtotal float64 `json:"subtotal"`
			Tax      float64 `json:"tax"`
			Shipping float64 `json:"shipping"`
			Discount float64 `json:"discount"`
			Total    float64 `json:"total"`
			Count    int     `json:"items_count"`
		}{fmt.Sprintf("ORD-%s-%d", strings.ReplaceAll(in.UserID, "-", ""), len(in.Items)), in.UserID,
			sum, tax, shipping, discount, cents(sum + tax + shipping - discount), len(in.Items)})
	})
	log.Fatal(http.ListenAndServe(*addr, mux))
}
