// Package changes delivers changes of lists and resources to subscriptions. A [Subscription] records the [Change] that
// its filter includes until the subscriber takes it; a [Broadcaster] passes each change to all subscriptions of a
// server or client, counts their subscribers, and limits the bytes of the URIs.
package changes
