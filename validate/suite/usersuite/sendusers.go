package usersuite

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = descriptors.Case(validate.Case{
	ID: "user.descriptor.users",
	Title: "descriptors that processes of two users do not receive, up to the limit of all: each further user may " +
		"have those of one message",
	Run: descriptorUsers,
}, req.SAS2_4_10)

func descriptorUsers(t *validate.T) {
	const ofClient, step = 16, 50 * time.Millisecond
	half := descriptorLimit(t) / 2
	s := newStage(t)
	v := s.virtual(func(*kproxy.Config) {})
	create := encode(&schema.CreateEventQueue{})
	// flying waits until a number of descriptors are in flight, and none that waits.
	flying := func(want int, where string) {
		s.await("descriptors in flight, "+where, fmt.Sprint(want), func() string {
			if n, _ := native.InFlight(); n != want {
				return fmt.Sprint(n)
			}
			return ""
		})
	}
	flying(0, "at first")
	t.Step("two users at their limits")
	for i := range 2 {
		for left := half; left > 0; left -= ofClient {
			x := s.directOf(otherUser + i)
			for range min(left, ofClient) {
				x.send(schema.CmdCreateEventQueue, create)
			}
		}
		flying((i+1)*half, fmt.Sprintf("with %d users at their limits", i+1))
	}
	var further []*speaker
	for i := range 2 {
		t.Step("further user %d", i+1)
		x := s.directOf(otherUser + 2 + i)
		further = append(further, x)
		x.send(schema.CmdCreateEventQueue, create)
		want := 2*half + i + 1
		flying(want, "with a further user")
		_, before := native.InFlight()
		x.send(schema.CmdCreateEventQueue, create)
		var n int
		var refused uint64
		s.await("a second message of a further user", "refused", func() string {
			if n, refused = native.InFlight(); n == want && refused == before {
				if v.Pending() > 0 {
					v.Advance(step)
				}
				return "not sent"
			}
			return ""
		})
		kit.Equal(t, "descriptors in flight and messages that were refused, after a second message",
			[2]uint64{uint64(n), refused - before}, [2]uint64{uint64(want), 1})
	}
	for _, x := range further {
		h, files := x.receive("a further user's first request")
		kit.Equal(t, "status and descriptors of its reply", fmt.Sprint(h.Status, files), fmt.Sprint(ci.Status(0), 1))
		h, files = x.receive("a further user's second request")
		kit.Equal(t, "status and descriptors of its reply", fmt.Sprint(h.Status, files),
			fmt.Sprint(ci.InsufficientResources, 0))
	}
	t.Step("a process that ends while a message waits")
	s.pending(v, 0, "the daemon's timers, without messages that wait")
	x := further[0]
	x.send(schema.CmdCreateEventQueue, create)
	x.send(schema.CmdCreateEventQueue, create)
	s.pending(v, 1, "the daemon's timers, with a message that waits")
	x.c.Close()
	s.pending(v, 0, "the daemon's timers, after the end of the process")
}

// directOf is direct for a client of another user.
func (s *stage) directOf(uid int) (x *speaker) {
	asUser(s.t, uid, func() { x = s.direct() })
	return x
}
