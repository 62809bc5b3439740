// Serves the tools with the TypeScript SDK, as its guide on HTTP has it: one handler for all revisions, and a server
// for each request from a factory.
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { Redis } from 'ioredis';
import * as z from 'zod/v4';

const { values: args } = parseArgs({
    options: {
        addr: { type: 'string', default: '127.0.0.1:8081' },
        admin: { type: 'string', default: '' }, // not served
        api: { type: 'string', default: 'http://127.0.0.1:8100' },
        redis: { type: 'string', default: '127.0.0.1:6379' }
    }
});
const redis = new Redis(`redis://${args.redis}`);
const server_type = 'ts';

const get = async path => {
    const r = await fetch(args.api + path);
    if (!r.ok) throw new Error(`GET ${path}: ${r.status}`);
    return r.json();
};
const post = async (path, body) => {
    const r = await fetch(args.api + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    if (!r.ok) throw new Error(`POST ${path}: ${r.status}`);
    return r.json();
};
const structured = value => ({ content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: value });

const item = z.object({ product_id: z.number().int().describe('number of the product'), quantity: z.number().int().describe('how many') });
const userID = z.string().default('user-00042').describe('id of the user');

const search = {
    description: 'Search products by category and price, with their rank among the popular ones',
    inputSchema: z.object({
        category: z.string().default('Electronics').describe('category of the products'),
        min_price: z.number().default(50).describe('lowest price'),
        max_price: z.number().default(500).describe('highest price'),
        limit: z.number().int().default(10).describe('maximum number of products')
    }),
    outputSchema: z.object({
        category: z.string(),
        total_found: z.number().int(),
        products: z.array(
            z.object({ id: z.number().int(), sku: z.string(), name: z.string(), price: z.number(), rating: z.number(), popularity_rank: z.number().int() })
        ),
        top10_popular_ids: z.array(z.number().int()),
        server_type: z.string()
    })
};
async function searchProducts({ category, min_price, max_price, limit }) {
    const [found, members] = await Promise.all([
        get(`/products/search?${new URLSearchParams({ category, min_price, max_price, limit })}`),
        redis.zrevrange('bench:popular', 0, 9)
    ]);
    const popular = members.map(m => Number(m.slice('product:'.length)));
    const rank = new Map(popular.map((id, i) => [id, i + 1]));
    const products = found.products.map(({ id, sku, name, price, rating }) => ({ id, sku, name, price, rating, popularity_rank: rank.get(id) ?? 0 }));
    return structured({ category, total_found: found.total_found, products, top10_popular_ids: popular, server_type });
}

const cart = {
    description: 'Show the cart of a user and the last orders',
    inputSchema: z.object({ user_id: userID }),
    outputSchema: z.object({
        user_id: z.string(),
        cart: z.object({
            items: z.array(z.object({ product_id: z.number().int(), qty: z.number().int() })),
            item_count: z.number().int(),
            estimated_total: z.number()
        }),
        recent_history: z.array(
            z.object({
                order_id: z.string(),
                product_id: z.number().int().optional(),
                qty: z.number().int().optional(),
                price: z.number().optional(),
                items: z.array(item).optional(),
                ts: z.number().int()
            })
        ),
        server_type: z.string()
    })
};
async function getUserCart({ user_id }) {
    const hash = await redis.hgetall(`bench:cart:${user_id}`);
    const items = JSON.parse(hash.items ?? '[]');
    const [, entries] = await Promise.all([get(`/products/${items[0]?.product_id ?? 1}`), redis.lrange(`bench:history:${user_id}`, 0, 4)]);
    return structured({
        user_id,
        cart: { items, item_count: items.length, estimated_total: Number(hash.total ?? 0) },
        recent_history: entries.map(e => JSON.parse(e)),
        server_type
    });
}

const checkout = {
    description: 'Check a cart out: compute the total, count the order and remember it',
    inputSchema: z.object({
        user_id: userID,
        items: z
            .array(item)
            .default([
                { product_id: 42, quantity: 2 },
                { product_id: 1337, quantity: 1 }
            ])
            .describe('what to buy')
    }),
    outputSchema: z.object({
        order_id: z.string(),
        user_id: z.string(),
        total: z.number(),
        items_count: z.number().int(),
        rate_limit_count: z.number().int(),
        status: z.string(),
        server_type: z.string()
    })
};
async function checkOut({ user_id, items }) {
    const number = Number(user_id.split('-').pop()) || 42;
    const ts = Math.floor(Date.now() / 1000);
    const [sum, rate_limit_count] = await Promise.all([
        post('/cart/calculate', { user_id, items }),
        redis.incr(`bench:ratelimit:user-${String(number % 100).padStart(5, '0')}`),
        redis.rpush(`bench:history:${user_id}`, JSON.stringify({ order_id: `ORD-${user_id}-${ts}`, items, ts })),
        redis.zincrby('bench:popular', 1, `product:${items[0].product_id}`)
    ]);
    return structured({ order_id: sum.order_id, user_id, total: sum.total, items_count: items.length, rate_limit_count, status: 'confirmed', server_type });
}

const handler = createMcpHandler(() => {
    const s = new McpServer({ name: 'shop', version: '1.0.0' });
    s.registerTool('search_products', search, searchProducts);
    s.registerTool('get_user_cart', cart, getUserCart);
    s.registerTool('checkout', checkout, checkOut);
    return s;
});
const node = toNodeHandler(handler);
const validHost = localhostHostValidation();
const validOrigin = localhostOriginValidation();
const [host, port] = args.addr.split(':');
createServer((req, res) => {
    if (req.url === '/health') return void res.end();
    if (!validHost(req, res) || !validOrigin(req, res)) return;
    void node(req, res);
}).listen(Number(port), host);
