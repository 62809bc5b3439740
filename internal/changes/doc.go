// Package changes delivers changes of lists and resources to subscriptions. A [Subscription] records the [Change] that
// its filter includes until the subscriber takes it; a [Broadcaster] passes each change to all subscriptions of a
// server or client, counts their subscribers, and limits the bytes of the URIs.
package changes

// Where the rules are:
//
//   - limits.go: resources and bytes of one subscription, and of one client. broadcaster.go: who learns of a change.
//   - subscription.go: what a filter includes, also of parts of a resource, and the pause between two deliveries.
//     change.go: the kinds of changes and their notifications.
//   - subscribers.go: for which resources there are subscribers. replay.go: which changes a stream that moves between
//     replicas gets again.
