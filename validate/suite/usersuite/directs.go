package usersuite

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// session is a client of the daemon's core, by a front end of the case, which can say any user and process.
type session struct {
	s     *stage
	c     *kproxy.Session
	queue schema.Handle
	pd    schema.Handle
}

// otherUser is a user that is neither the daemon's nor root.
const otherUser = 54321

// peer returns this process, as a user has it.
func peer(uid int) kproxy.Peer { return kproxy.Peer{PID: os.Getpid(), UID: uid, GID: uid} }

// session opens a session of a process, with an event queue.
func (s *stage) session(p kproxy.Peer) *session {
	if runtime.GOOS != "linux" {
		s.t.Skip("connections between processes need Linux")
	}
	c, err := s.core.Open(p, 64, "certifier")
	kit.OK(s.t, err, "kproxy.Server.Open")
	s.t.Cleanup(func() { _ = c.Close() }) // it may be closed
	x := &session{s: s, c: c}
	r, err := x.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{})
	kit.OK(s.t, err, "CreateEventQueue")
	CloseFiles(r.Files)
	x.queue = r.Body.(*schema.Created).Handle
	return x
}

func (x *session) do(cmd schema.Command, body any, files ...*os.File) (*kproxy.Result, error) {
	return x.c.Do(&kproxy.Call{Command: cmd, Body: body, Files: files})
}

// open opens the adapter.
func (x *session) open() (schema.Handle, error) {
	r, err := x.do(schema.CmdOpenCA, &schema.OpenCA{GUID: x.s.guids[0], Async: x.queue})
	if err != nil {
		return 0, err
	}
	return r.Body.(*schema.Created).Handle, nil
}

// domain opens the adapter and allocates a PD.
func (x *session) domain() *session {
	t := x.s.t
	ca, err := x.open()
	kit.OK(t, err, "HCA.OpenCA")
	r, err := x.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: ca})
	kit.OK(t, err, "CA.AllocatePD")
	x.pd = r.Body.(*schema.Created).Handle
	return x
}

// register registers memory of this process.
func (x *session) register(b []byte) error {
	addr := ci.Bytes(b).Addr()
	_, err := x.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: x.pd, Memory: schema.Memory{Addr: addr,
		Length: uint64(len(b)), IOVA: addr, FileOffset: copyToken, Access: ci.LocalWrite}})
	return err
}

var _ = memories.Case(validate.Case{
	ID: "user.memory.by-number",
	Title: "a daemon that may not trace every process: it reads and writes exactly the bytes that are registered, " +
		"while the process lives",
	Run: memoryByNumber,
}, req.SAS2_4_09)

func memoryByNumber(t *validate.T) {
	const length = 150_001
	s := newStage(t)
	var c *session
	withoutTrace(t, func() { c = s.session(peer(os.Getuid())) })
	c.domain()
	x := &reached{t: t, length: length, whole: make([]byte, length+2*guard)}
	x.model = bytes.Clone(kit.Random(t, x.whole))
	kit.OK(t, c.register(x.whole[guard:][:length]), "PD.RegisterMR")
	x.m = s.probe.lastMemory()
	x.edges()
	for range 20 {
		x.random()
	}
	x.pieces()
	x.atomics()
	t.Step("rights")
	page := os.Getpagesize()
	b, protect, unmap, err := mapPages(3)
	if err != nil {
		t.Harness("three pages: %v", err)
	}
	t.Cleanup(unmap)
	kit.OK(t, c.register(b), "PD.RegisterMR of three pages")
	m := s.probe.lastMemory()
	for _, inaccessible := range []bool{false, true} {
		if err := protect(1, inaccessible); err != nil {
			t.Harness("a page: %v", err)
		}
		for _, at := range []int{0, page, page + 100, 2*page - 8} {
			_, err := m.WriteAt(make([]byte, page), int64(at))
			kit.True(t, (err == nil) == (at == 0), fmt.Sprintf("Memory.WriteAt of a page at %d of three, of which the "+
				"second has no rights", at), "success for the first page only", "%v", err)
			_, err = m.ReadAt(make([]byte, page), int64(at))
			kit.True(t, (err == nil) == (at == 0 || !inaccessible), fmt.Sprintf("Memory.ReadAt of a page at %d of "+
				"three, of which the second has no rights", at), "success where the rights permit it", "%v", err)
			if w, ok := m.(pieceMemory); ok {
				err = w.WritePieces([][]byte{make([]byte, page/2), make([]byte, page/2)}, page, int64(at))
				kit.True(t, (err == nil) == (at == 0), fmt.Sprintf("PieceMemory.WritePieces of a page at %d of "+
					"three, of which the second has no rights", at), "success for the first page only", "%v", err)
			}
		}
		kit.WantExactly(t, c.register(b), "PD.RegisterMR of three pages, of which the second has no rights",
			ci.InvalidPermission)
		kit.OK(t, c.register(b[2*page:]), "PD.RegisterMR of the page behind one without rights")
	}
	kit.OK(t, c.c.Close(), "kproxy.Session.Close")
	x.ended()
}

var _ = memories.Case(validate.Case{
	ID: "user.memory.others",
	Title: "memory of processes of other users, of processes that have ended, and of none: the daemon does not reach " +
		"it, and has such a process copy it",
	Run: memoryOthers,
}, req.SAS2_4_09)

func memoryOthers(t *validate.T) {
	s := newStage(t)
	own := make([]byte, 4096)
	ended := exec.Command("/proc/self/exe", "version")
	if err := ended.Start(); err != nil {
		t.Harness("a process: %v", err)
	}
	_ = ended.Process.Kill() // it may have ended
	_ = ended.Wait()         // killed
	for _, v := range []struct {
		what    string
		p       kproxy.Peer
		canCopy bool
		// whether the daemon reaches memory, and whether it has the process copy it
		reached, helped bool
		isThere         bool // its mappings are known
	}{
		{"the daemon's user", peer(os.Getuid()), true, true, false, true},
		{"another user", peer(otherUser), true, false, true, true},
		{"another user without the right to copies", peer(otherUser), false, false, false, true},
		{"a process that has ended", kproxy.Peer{PID: ended.Process.Pid, UID: os.Getuid()}, true, false, true, false},
		{"no process", kproxy.Peer{UID: os.Getuid()}, true, false, true, false},
		{"process -1", kproxy.Peer{PID: -1, UID: os.Getuid()}, true, false, true, false},
	} {
		for _, mayTrace := range []bool{true, false} {
			s.restart(func(cfg *kproxy.Config) {
				cfg.CanCopy = nil // the daemon's user, and root
				if v.canCopy {
					cfg.CanCopy = func(kproxy.Peer) bool { return true }
				}
			})
			what := "memory of " + v.what
			var c *session
			if mayTrace {
				c = s.session(v.p)
			} else {
				what += ", by a daemon that may not trace every process"
				withoutTrace(t, func() { c = s.session(v.p) })
			}
			c.domain()
			expect := func(err error, where string, is bool) {
				if is {
					kit.OK(t, err, where)
				} else {
					kit.WantExactly(t, err, where, ci.InvalidPermission)
				}
			}
			expect(c.register(own), "PD.RegisterMR of "+what, v.reached)
			r, err := c.do(schema.CmdServeCopies, &schema.ServeCopies{})
			kit.OK(t, err, "ServeCopies")
			f := r.Files[0]
			_ = f.SetReadDeadline(time.Now().Add(t.Remaining()))
			copies := make(chan int, 1)
			go func() {
				n := 0
				b := make([]byte, lenCopy+maxCopy)
				for {
					k, err := f.Read(b)
					if err != nil {
						copies <- n
						return
					}
					n++
					m, _, err := schema.ParseCopy(b[:k])
					if err != nil {
						continue
					}
					_, _ = f.Write(copied(m.ID, 0, make([]byte, m.Length)...)) // the daemon may have closed its end
				}
			}()
			expect(c.register(own), "PD.RegisterMR with a process that copies, of "+what, v.reached || v.helped)
			_, err = c.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: c.pd, Memory: schema.Memory{Addr: 4096,
				Length: 8, Access: ci.LocalWrite}})
			expect(err, "PD.RegisterMR of an address that is not mapped, of "+what, v.helped && !v.isThere)
			kit.OK(t, c.c.Close(), "kproxy.Session.Close")
			want := 0
			if v.helped {
				want++
			}
			if v.helped && !v.isThere {
				want++
			}
			kit.Equal(t, "copies that the process has made, of "+what, <-copies, want)
			f.Close()
		}
	}
}

var _ = quotas.Case(validate.Case{
	ID: "user.quota.shares",
	Title: "what the processes of a user hold of the daemon's own limits: half of them; all processes together: no " +
		"more than there is",
	Run: quotaShares,
}, req.SAS2_4_10)

// shareModel is what the processes of the daemon hold of its descriptors, by docs/limits.md.
type shareModel struct {
	most  int
	all   int
	users map[int]int
}

// has adds to what a user holds, and reports whether that is permitted.
func (m *shareModel) has(uid, n int) bool {
	if m.all+n > m.most || uid != os.Getuid() && m.users[uid]+n > m.most/2 {
		return false
	}
	m.all += n
	m.users[uid] += n
	return true
}

func quotaShares(t *validate.T) {
	const perOpen, perQueue, opensOfSession, mostOpens = 4, 1, 256, 20000
	files := descriptorShare(t)
	if files/perOpen > mostOpens {
		t.Skip("the daemon may have %d descriptors", files)
	}
	s := newStage(t)
	m := &shareModel{most: files, users: map[int]int{}}
	sessions := map[int][]*session{}
	opens := map[*session][]schema.Handle{}
	// fill opens the adapter for processes of a user until the limit.
	fill := func(uid int, what string) (x *session) {
		for m.has(uid, perQueue) {
			x = s.session(peer(uid))
			sessions[uid] = append(sessions[uid], x)
			for len(opens[x]) < opensOfSession {
				h, err := x.open()
				where := fmt.Sprintf("HCA.OpenCA of %s with %d descriptors, of %d of all", what, m.users[uid], m.all)
				if !m.has(uid, perOpen) {
					kit.WantExactly(t, err, where, ci.InsufficientResources)
					return x
				}
				kit.OK(t, err, where)
				opens[x] = append(opens[x], h)
			}
		}
		return x
	}
	destroy := func(uid int, x *session) {
		h := opens[x][len(opens[x])-1]
		opens[x] = opens[x][:len(opens[x])-1]
		_, err := x.do(schema.CmdDestroy, &schema.Object{Handle: h})
		kit.OK(t, err, "CA.Destroy")
		m.all, m.users[uid] = m.all-perOpen, m.users[uid]-perOpen
	}
	open := func(uid int, x *session, what string) {
		h, err := x.open()
		if !m.has(uid, perOpen) {
			kit.WantExactly(t, err, what, ci.InsufficientResources)
			return
		}
		kit.OK(t, err, what)
		opens[x] = append(opens[x], h)
	}
	kit.True(t, m.has(os.Getuid(), perQueue), "descriptors for clients", "some", "none")
	own := s.session(peer(os.Getuid()))
	sessions[os.Getuid()] = []*session{own}
	for range 10 {
		open(os.Getuid(), own, "HCA.OpenCA of the daemon's user")
	}
	a := fill(otherUser, "a user")
	destroy(otherUser, a)
	open(otherUser, a, "HCA.OpenCA after a destroy")
	open(otherUser, a, "HCA.OpenCA at the limit of a user")
	mr, err := a.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: opens[a][0]})
	kit.OK(t, err, "CA.AllocatePD at the limit of a user")
	a.pd = mr.Body.(*schema.Created).Handle
	shared := s.sharedMemory(4096)
	f, _ := shared.File()
	share := func(x *session) error {
		_, err := x.do(schema.CmdRegisterMR, &schema.RegisterMR{PD: x.pd, Memory: schema.Memory{Addr: shared.Addr(),
			Length: 1, Access: ci.LocalWrite, Shared: true}}, f)
		return err
	}
	kit.OK(t, share(a), "PD.RegisterMR of shared memory, of a user without room for descriptors")
	b := fill(otherUser+1, "another user")
	for _, x := range []struct {
		uid int
		*session
	}{{otherUser, a}, {otherUser + 1, b}, {os.Getuid(), own}} {
		open(x.uid, x.session, fmt.Sprintf("HCA.OpenCA of user %d at the limit of all", x.uid))
	}
	t.Step("the end of a process")
	first := sessions[otherUser][0]
	n := perQueue + perOpen*len(opens[first])
	kit.OK(t, first.c.Close(), "kproxy.Session.Close")
	m.all, m.users[otherUser] = m.all-n, m.users[otherUser]-n
	open(os.Getuid(), own, "HCA.OpenCA after the end of a process")
	open(otherUser, a, "HCA.OpenCA after the end of a process of the user")
	open(otherUser+1, b, "HCA.OpenCA of another user after the end of a process")
	fill(otherUser, "a user, after the end of a process")
	for _, list := range sessions {
		for _, x := range list {
			kit.OK(t, x.c.Close(), "kproxy.Session.Close")
		}
	}

	t.Step("mappings")
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return
	}
	all, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || all/4 > mostOpens || t.Attr().MaxMRs < all/4+2 {
		return // too many for a case, or for the adapter
	}
	s.restart(func(cfg *kproxy.Config) { cfg.Quota.Mappings = all })
	x := s.session(peer(otherUser)).domain()
	for n := 1; n < all/2/2; n++ { // the open adapter counts
		if err := share(x); err != nil {
			kit.OK(t, err, fmt.Sprintf("PD.RegisterMR of shared memory, mapping %d of %d of a user", n+1, all/2/2))
		}
	}
	kit.WantExactly(t, share(x), "PD.RegisterMR of shared memory beyond the mappings of a user",
		ci.InsufficientResources)
	y := s.session(peer(otherUser + 1)).domain()
	kit.OK(t, share(y), "PD.RegisterMR of shared memory of another user")
	kit.OK(t, x.c.Close(), "kproxy.Session.Close")
	z := s.session(peer(otherUser)).domain()
	kit.OK(t, share(z), "PD.RegisterMR of shared memory after the end of a process of the user")
}
