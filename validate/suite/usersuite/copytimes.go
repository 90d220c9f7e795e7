package usersuite

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// timed is a stage whose daemon has a virtual clock for copies.
type timed struct {
	*stage
	v     *clock.Virtual
	limit time.Duration
}

// newTimed returns a stage whose daemon limits the time of copies.
func newTimed(t *validate.T, change func(*kproxy.Config)) *timed {
	r := new(trace)
	x := &timed{v: clock.NewVirtual(time.Hour), limit: 3 * time.Second}
	x.stage = startStageAt(t, x.v, r, newProbe(r))
	x.restart(func(cfg *kproxy.Config) {
		cfg.CopyTimeout = x.limit
		change(cfg)
	})
	return x
}

// slow is a process that answers each copy when the case says so.
type slow struct {
	*speaker
	s     *timed
	own   handles
	f     *os.File
	reply chan native.Header // of the registration in progress
}

func (s *timed) slow() *slow {
	x := &slow{speaker: s.direct(), s: s, reply: make(chan native.Header, 1)}
	x.own = x.basics()
	x.f = x.copySocket()
	_ = x.f.SetDeadline(time.Now().Add(s.t.Remaining()))
	return x
}

// begin begins the registration of memory, and returns the id of the daemon's copy.
func (x *slow) begin(what string) uint64 {
	x.send(schema.CmdRegisterMR, encode(&schema.RegisterMR{PD: x.own.pd, Memory: schema.Memory{Addr: addrCopies,
		Length: 100, FileOffset: copyToken, Access: ci.LocalWrite}}))
	go func() {
		h, _ := x.receive(what)
		x.reply <- h
	}()
	b := make([]byte, lenCopy+maxCopy)
	n, err := x.f.Read(b)
	kit.OK(x.s.t, err, "the daemon's copy for "+what)
	c, _, err := schema.ParseCopy(b[:n])
	kit.OK(x.s.t, err, "the form of a copy for "+what)
	return c.ID
}

// answer answers a copy.
func (x *slow) answer(id uint64, what string) {
	_, err := x.f.Write(copied(id, 0, 0))
	kit.OK(x.s.t, err, "the answer to the copy for "+what)
}

// ends expects the end of the registration.
func (x *slow) ends(what string, want ci.Status) {
	select {
	case h := <-x.reply:
		kit.Equal(x.s.t, "status of "+what, h.Status, want)
	case <-x.s.t.Context().Done():
		x.s.t.Failf(what, "a reply", "none")
	}
}

// refused expects that a registration is refused, for which the daemon copies nothing.
func (x *slow) refused(what string) {
	h, _, err := x.exchange(schema.CmdRegisterMR, encode(&schema.RegisterMR{PD: x.own.pd, Memory: schema.Memory{
		Addr: addrCopies, Length: 100, FileOffset: copyToken, Access: ci.LocalWrite}}))
	kit.OK(x.s.t, err, "the connection after "+what)
	kit.Equal(x.s.t, "status of "+what, h.Status, ci.InvalidPermission)
}

var _ = copies.Case(validate.Case{
	ID: "user.copy.time",
	Title: "a copy ends after its limit, and before twice that time, whatever was copied before; then its user's " +
		"memory is copied again after 10 minutes",
	Run: copyTime,
}, req.SAS2_4_09)

func copyTime(t *validate.T) {
	const suspended = 10 * time.Minute
	s := newTimed(t, func(cfg *kproxy.Config) { cfg.ClientCopies, cfg.LimitCopies = true, true })
	for _, v := range kit.Variants(t, "", []struct {
		what   string
		before func(x *slow)
	}{
		{"the first copy", func(*slow) {}},
		{"a copy after others, each within its limit", func(x *slow) {
			for i := range 5 {
				what := fmt.Sprintf("a registration whose copy takes its limit, round %d", i)
				id := x.begin(what)
				s.v.Advance(s.limit - 1)
				x.answer(id, what)
				x.ends(what, 0)
			}
		}},
		{"a copy after a long time without any", func(x *slow) {
			id := x.begin("a registration")
			x.answer(id, "a registration")
			x.ends("a registration", 0)
			for range 10 {
				s.v.Advance(s.limit)
			}
		}},
		{"a copy after a short one", func(x *slow) {
			id := x.begin("a registration")
			s.v.Advance(s.limit / 2)
			x.answer(id, "a registration")
			x.ends("a registration", 0)
		}},
	}) {
		x := s.slow()
		v.before(x)
		what := "a registration that takes its limit: " + v.what
		id := x.begin(what)
		s.v.Advance(s.limit - 1)
		x.answer(id, what)
		x.ends(what, 0)
		what = "a registration that takes longer: " + v.what
		x.begin(what)
		s.v.Advance(2 * s.limit)
		x.ends(what, ci.InvalidPermission)
		_, err := x.f.Read(make([]byte, 1))
		kit.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "the socket of copies after "+what,
			"its end", "%v", err)
		x.refused("a registration after a copy that took too long")
		// Another process of the user.
		y := s.slow()
		y.refused("a registration of another process after a copy that took too long")
		// The 10 minutes began when the daemon noticed it, at some time of the last Advance.
		s.v.Advance(suspended - 2*s.limit - 1)
		y.refused("a registration of another process, almost 10 minutes later")
		s.v.Advance(2*s.limit + 1)
		what = "a registration of another process, 10 minutes later"
		y.answer(y.begin(what), what)
		y.ends(what, 0)
		x.refused("a registration of the first process, 10 minutes later")
		for _, c := range []*slow{x, y} {
			c.c.Close()
		}
		s.gone("the daemon after the end of the processes")
		for range 3 { // the timers of ended processes
			s.v.Advance(s.limit)
		}
		kit.Equal(t, "timers after the end of the processes", s.v.Pending(), 0)
	}
}

var _ = copies.Case(validate.Case{
	ID: "user.copy.limited",
	Title: "copies of mapped files have a limit of time, and so have those of all memory where the daemon says so; " +
		"memory in the form of a file is no file",
	Run: copyLimited,
}, req.SAS2_4_09)

// fileMapping returns a mapping of a file with a name in a folder, or nil.
func fileMapping(t *validate.T, dir string, size int) []byte {
	f, err := os.CreateTemp(dir, "ddk-validate-")
	if err != nil {
		return nil
	}
	defer f.Close()
	defer os.Remove(f.Name()) // after the case has mapped it; the mapping stays
	if err := f.Truncate(int64(size)); err != nil {
		t.Harness("a file: %v", err)
	}
	return mappingOf(t, f, size)
}

func mappingOf(t *validate.T, f *os.File, size int) []byte {
	b, unmap, err := mapFile(f, size)
	if err != nil {
		t.Harness("a mapping: %v", err)
	}
	t.Cleanup(unmap)
	return b
}

func copyLimited(t *validate.T) {
	size := os.Getpagesize()
	s := newTimed(t, func(*kproxy.Config) {})
	for _, all := range []bool{false, true} {
		s.restart(func(cfg *kproxy.Config) { cfg.CopyTimeout, cfg.LimitCopies = s.limit, all })
		x := s.direct()
		own := x.basics()
		m := s.sharedMemory(size)
		f, _ := m.File()
		for _, v := range []struct {
			what    string
			b       []byte
			limited bool
		}{
			{"memory of the process", make([]byte, size), false},
			{"a mapped file", fileMapping(t, "", size), true},
			{"a mapped file in memory", fileMapping(t, "/dev/shm", size), false},
			{"a mapped memfd", mappingOf(t, f, size), false},
		} {
			if v.b == nil {
				continue // there is no such folder
			}
			b := v.b[:size-8]
			kit.Random(t, b)
			addr := uint64(reflect.ValueOf(b).Pointer())
			var r schema.RegionReply
			kit.OK(t, x.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: own.pd, Memory: schema.Memory{Addr: addr,
				Length: uint64(len(b)), IOVA: addr, Access: ci.LocalWrite}}, &r), "PD.RegisterMR of "+v.what)
			// The timer of the copies of the registration ends when there are no more.
			s.v.Advance(s.limit)
			s.v.Advance(s.limit)
			kit.Equal(t, "timers after the registration of "+v.what, s.v.Pending(), 0)
			got := make([]byte, len(b))
			_, err := s.probe.lastMemory().ReadAt(got, 0)
			kit.OK(t, err, "Memory.ReadAt of "+v.what)
			kit.SameBytes(t, "Memory.ReadAt of "+v.what, got, b)
			want := 0
			if v.limited || all {
				want = 1
			}
			kit.Equal(t, "timers of a copy of "+v.what, s.v.Pending(), want)
			_, err = s.probe.lastMemory().WriteAt(pattern(len(b)), 0)
			kit.OK(t, err, "Memory.WriteAt of "+v.what)
			kit.SameBytes(t, "Memory.WriteAt of "+v.what, b, pattern(len(b)))
			s.v.Advance(s.limit)
			kit.Equal(t, "timers of copies of "+v.what+" after their limit", s.v.Pending(), want)
			s.v.Advance(s.limit)
			kit.Equal(t, "timers of copies of "+v.what+" after twice their limit", s.v.Pending(), 0)
			x.destroyed(r.Handle)
		}
		x.c.Close()
		s.gone("the daemon after the end of the process")
	}
}
