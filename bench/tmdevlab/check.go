//go:build linux

package main

import (
	"fmt"
	"strings"
)

// check prints the responses of each server once: to the four requests, to wrong arguments, and after the end of a
// session.
func check(s *services) error {
	return s.each(0, func(c contender, _ *process, addr, _ string) error {
		u := newUser(&load{addr: addr, modern: c.modern}, 7)
		defer u.close()
		for _, k := range measured {
			if err := u.check(c, k); err != nil {
				return err
			}
		}
		return nil
	})
}

func (u *user) check(c contender, k kind) error {
	show := func(format string, args ...any) {
		fmt.Printf("%-15s "+format+"\n", append([]any{c.name}, args...)...)
	}
	session := ""
	if !c.modern {
		hello, err := u.do(u.request(initialize, ""))
		if err != nil {
			return err
		}
		if err := verify(initialize, hello.body); err != nil {
			return fmt.Errorf("initialize: %w: %s", err, hello.body)
		}
		session = hello.session
		show("initialize %d, session %q", hello.status, session)
		ready, err := u.do(u.request(initialized, session))
		if err != nil {
			return err
		}
		if ready.status >= 400 {
			show("notifications/initialized %d %s", ready.status, ready.body)
		}
	}
	r, err := u.do(u.request(k, session))
	if err != nil {
		return err
	}
	if err := verify(k, r.body); err != nil {
		return fmt.Errorf("%s: %w: %d %s", kindNames[k], err, r.status, r.body)
	}
	show("%s %d, %d bytes: %.230s", kindNames[k], r.status, len(r.body), message(r.body))
	if k == searchProducts {
		if err := u.checkArguments(show, session); err != nil {
			return err
		}
	}
	if session == "" {
		return nil
	}
	deleted, err := u.do(u.request(end, session))
	if err != nil {
		return err
	}
	after, err := u.do(u.request(k, session))
	if err != nil {
		return err
	}
	show("DELETE %d, then %s %d", deleted.status, kindNames[k], after.status)
	return nil
}

// checkArguments shows whether the server rejects arguments of a wrong type and unknown ones.
func (u *user) checkArguments(show func(string, ...any), session string) error {
	good := u.requests[searchProducts]
	defer func() { u.requests[searchProducts] = good }()
	for _, bad := range []string{`"limit":"ten"`, `"limit":10.5`, `"limit":10,"more":1`} {
		u.requests[searchProducts] = []byte(strings.Replace(string(good), `"limit":10`, bad, 1))
		r, err := u.do(u.request(searchProducts, session))
		if err != nil {
			return err
		}
		m := string(message(r.body))
		rejected := r.status >= 400 || strings.Contains(m, `"isError":true`) || strings.Contains(m, `"error"`)
		show("%s: %d, rejected: %v", bad, r.status, rejected)
	}
	return nil
}
