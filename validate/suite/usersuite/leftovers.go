package usersuite

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = exits.Case(validate.Case{
	ID: "user.exit.descriptors",
	Title: "the daemon keeps no descriptor and no mapping of a process that has ended, or of requests that it has " +
		"refused",
	Run: exitDescriptors,
}, req.SAS2_4_15)

// holdings are the numbers of descriptors and of mapped files in memory of this process.
type holdings struct{ files, maps int }

func (h holdings) String() string {
	return fmt.Sprintf("%d descriptors, %d mapped files in memory", h.files, h.maps)
}

func held(t *validate.T) holdings {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the descriptors of a process are not known")
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("the mappings of a process are not known")
	}
	return holdings{len(list), strings.Count(string(maps), "/memfd:")}
}

// holds waits until the daemon holds no more than base, and returns what it holds then: less, if something that was
// used before has been released since.
func (s *stage) holds(base holdings, after string) (now holdings) {
	s.await("what the daemon holds after "+after, "at most "+base.String(), func() string {
		if now = held(s.t); now.files > base.files || now.maps > base.maps {
			return now.String()
		}
		return ""
	})
	return now
}

func exitDescriptors(t *validate.T) {
	s := newStage(t)
	shared := s.sharedMemory(4096)
	f, _ := shared.File()
	memory := make([]byte, 4096)
	use := func(x *speaker) (own handles) {
		own = x.basics()
		for _, m := range []schema.Memory{{Addr: ci.Bytes(memory).Addr(), Length: 4096, Access: ci.LocalWrite},
			{Addr: shared.Addr(), Length: 4096, Access: ci.LocalWrite, Shared: true}} {
			var files []*os.File
			if m.Shared {
				files = []*os.File{f}
			}
			_, err := x.create(schema.CmdRegisterMR, &schema.RegisterMR{PD: own.pd, Memory: m}, files...)
			kit.OK(t, err, "PD.RegisterMR")
			_, err = s.probe.lastMemory().ReadAt(make([]byte, 10), 0)
			kit.OK(t, err, "Memory.ReadAt")
		}
		return own
	}
	var list []scenario
	add := func(what string, run func(x *speaker)) { list = append(list, scenario{what, run}) }
	add("a process with memory", func(x *speaker) { use(x) })
	add("a process that copies its memory", func(x *speaker) {
		use(x)
		x.send(schema.CmdServeCopies, encode(&schema.ServeCopies{}))
		x.receive("of ServeCopies")
	})
	add("a process that has destroyed its event queue", func(x *speaker) {
		var q schema.Created
		kit.OK(t, x.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &q), "CreateEventQueue")
		x.destroyed(q.Handle)
	})
	add("a process with refused requests", func(x *speaker) {
		own := x.basics()
		for _, r := range []any{&schema.RegisterMR{PD: own.pd}, &schema.RegisterMR{PD: own.pd, Memory: schema.Memory{
			Length: 1 << 40, Shared: true}}, &schema.RegisterMR{PD: own.pd, Memory: schema.Memory{Addr: shared.Addr(),
			Length: 4096, IOVA: 3, Access: ci.RemoteWrite, Shared: true}}, &schema.RegisterMR{PD: own.cq}} {
			_, err := x.create(schema.CmdRegisterMR, r, f)
			kit.True(t, err != nil, "PD.RegisterMR with a fault", "an error", "success")
		}
		_, _, err := x.exchange(schema.CmdQueryCQ, encode(&schema.CQ{CQ: own.cq}), f)
		kit.OK(t, err, "the connection")
	})
	add("a process with a message of too many descriptors", func(x *speaker) {
		own := x.basics()
		files := make([]*os.File, schema.MaxFiles+2)
		for i := range files {
			files[i] = f
		}
		_, _, err := x.exchange(schema.CmdQueryCQ, encode(&schema.CQ{CQ: own.cq}), files...)
		kit.True(t, err != nil, "a message with too many descriptors", "the end of the connection", "a reply")
	})
	add("a process with a wrong message", func(x *speaker) {
		use(x)
		_, _, err := x.raw([]byte{1}, f)
		kit.True(t, err != nil, "a message that is not of the protocol", "the end of the connection", "a reply")
	})
	for _, n := range []int{5, 1} {
		add(fmt.Sprintf("a process that receives %d of its descriptors after the end of its session", n),
			func(x *speaker) { x.receivesLate(n) })
	}
	for _, v := range kit.Variants(t, "", list) {
		v.twice(s)
	}
	t.Step("memory that the process destroys and changes")
	s.restart(func(*kproxy.Config) {})
	x := s.direct()
	own := x.basics()
	mr := func() schema.Handle {
		h, err := x.create(schema.CmdRegisterMR, &schema.RegisterMR{PD: own.pd, Memory: schema.Memory{
			Addr: shared.Addr(), Length: 4096, IOVA: shared.Addr(), Access: ci.LocalWrite, Shared: true}}, f)
		kit.OK(t, err, "PD.RegisterMR")
		return h
	}
	x.destroyed(mr())
	base := held(t)
	first := mr()
	kit.True(t, held(t).maps > base.maps, "mapped files of the daemon with a region of shared memory", "one more",
		"%d", held(t).maps)
	x.destroyed(first)
	s.holds(base, "a region was destroyed")
	if !t.Claims().Has(ci.CapModifyMR) {
		return
	}
	first = mr()
	base = held(t)
	for _, set := range []ci.MRField{ci.MRFieldMemory | ci.MRFieldAccess, ci.MRFieldMemory} {
		_, err := x.execute(schema.CmdModifyMR, native.Append(nil, &schema.ModifyMR{MR: first, Set: uint32(set),
			Memory: schema.Memory{Addr: shared.Addr(), Length: 100, IOVA: shared.Addr(), Access: ci.LocalWrite,
				Shared: true}}), f)
		kit.OK(t, err, "MR.Modify of the memory")
		base = s.holds(base, "MR.Modify")
		_, err = x.execute(schema.CmdModifyMR, native.Append(nil, &schema.ModifyMR{MR: first, Set: uint32(set),
			Memory: schema.Memory{Addr: shared.Addr(), Length: 1 << 20, IOVA: shared.Addr(), Shared: true}}), f)
		kit.True(t, err != nil, "MR.Modify of the memory to more than there is", "an error", "success")
		base = s.holds(base, "an MR.Modify that fails")
	}
	pd := x.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{CA: own.ca})
	for _, m := range []*schema.ModifyMR{
		{MR: first, Set: uint32(ci.MRFieldAccess), Memory: schema.Memory{Access: ci.LocalWrite}},
		{MR: first, PD: pd, Set: uint32(ci.MRFieldPD)},
		{MR: first, PD: own.pd, Set: uint32(ci.MRFieldAccess), Memory: schema.Memory{Access: ci.LocalWrite}},
	} {
		kit.OK(t, x.do(schema.CmdModifyMR, m, &schema.RegionReply{}), "MR.Modify")
		base = s.holds(base, "an MR.Modify without memory")
	}
	kit.WantExactly(t, x.destroy(pd), "PD.Destroy with a region that was moved to it, and not back", ci.ResourceBusy)
	x.destroyed(first)
	x.destroyed(pd)
}

// receivesLate receives n descriptors after the daemon has ended the session and its end of the connection.
func (x *speaker) receivesLate(n int) {
	for range n {
		x.send(schema.CmdCreateEventQueue, encode(&schema.CreateEventQueue{}))
	}
	s, t := x.s, x.s.t
	s.await("descriptors in flight", fmt.Sprint(n), func() string {
		if got, _ := native.InFlight(); got != n {
			return fmt.Sprint(got)
		}
		return ""
	})
	kit.OK(t, x.c.Send([]byte{1}, nil), "a message that is not of the protocol")
	s.await("clients", "none", func() string {
		if n := len(s.core.Sessions()); n != 0 {
			return fmt.Sprint(n)
		}
		return ""
	})
	s.await("the connection after the end of the session", "its end", func() string {
		if x.c.Send([]byte{1}, nil) == nil {
			return "a message that could be sent"
		}
		return ""
	})
	got, _ := native.InFlight()
	kit.Equal(t, "descriptors in flight after the end of the connection", got, n)
	for range n {
		x.receive("after the end of the session")
	}
}

// scenario is what a process does before its end.
type scenario struct {
	what string
	run  func(x *speaker)
}

// twice runs it a first time, in which the system and the runtime may make what stays, and further times.
func (v *scenario) twice(s *stage) {
	once := func() {
		x := s.direct()
		v.run(x)
		CloseFiles(x.files)
		x.files = nil
		x.c.Close()
		s.gone("the daemon after the end of " + v.what)
		native.InFlight() // finds what was received
	}
	once()
	base := held(s.t)
	for range 3 {
		once()
		base = s.holds(base, v.what+" once more")
	}
}

var _ = removals.Case(validate.Case{
	ID: "user.removal.during",
	Title: "an adapter is removed while its driver executes a post or poll of a process: its result is that of the " +
		"driver, or InvalidState",
	Run: removalDuring,
}, req.SAS2_4_11)

func removalDuring(t *validate.T) {
	s := newStage(t)
	x := s.direct()
	queue, events := x.started()
	fatal := schema.Event{Kind: schema.EventAsync, Type: uint32(ci.EventLocalFatal)}
	round := 0
	for cmd := range (&whole{}).posts() {
		for _, result := range []error{nil, &ci.Error{Verb: "x", Status: ci.InvalidQPHandle}} {
			round++
			w := x.whole(0, queue)
			body := w.posts()[cmd]
			entered, leave := make(chan struct{}), make(chan struct{})
			var held atomic.Bool
			hold := func(of schema.Command, len, n int) (int, error) {
				if of != cmd && (of != schema.CmdPostRecv || cmd != schema.CmdPostSRQRecv) || len != 1 ||
					held.Swap(true) {
					return 0, errPass // for example, services of the daemon poll for more completions
				}
				close(entered)
				select {
				case <-leave:
				case <-t.Context().Done():
				}
				if result != nil {
					return 0, result
				}
				return n, nil
			}
			s.probe.path.Store(&path{
				send: func(wrs []ci.SendWR) (int, error) { return hold(schema.CmdPostSend, len(wrs), 1) },
				recv: func(wrs []ci.RecvWR) (int, error) { return hold(schema.CmdPostRecv, len(wrs), 1) },
				poll: func(wc []ci.WC) (int, error) { return hold(schema.CmdPoll, len(wc), 0) },
			})
			where := fmt.Sprintf("the request %q, which the driver ends with %v", cmd, ci.StatusOf(result))
			x.send(cmd, body)
			select {
			case <-entered:
			case <-t.Context().Done():
				t.Failf(where, "a call of the driver", "none")
			}
			removed := make(chan error, 1)
			t.Go(func() { removed <- s.al.Deregister(s.guids[0]) })
			s.await("EventLocalFatal while the driver executes "+where, "one", func() string {
				if n := events.count(fatal); n != round {
					return fmt.Sprint(n - round + 1)
				}
				return ""
			})
			close(leave)
			h, _ := x.receive(where)
			want := ci.Status(0)
			if result != nil {
				want = ci.InvalidState
			}
			kit.Equal(t, "status of "+where, h.Status, want)
			kit.OK(t, <-removed, "Registrar.Deregister")
			s.probe.path.Store(nil)
			w.destroyAll()
			kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
		}
	}
}

// destroyAll destroys all objects, those that were made last first.
func (w *whole) destroyAll() {
	for i := len(w.list) - 1; i >= 0; i-- {
		w.destroyed(w.list[i])
	}
}
