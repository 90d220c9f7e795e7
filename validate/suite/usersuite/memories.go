package usersuite

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"strings"

	"ciddk/ci"
	"ciddk/ual"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Memory that the driver's two halves share. (SAS 2.4.)
var memories = area()

// memorySize is the size of the queues of these cases.
const memorySize = 8192

// words is what a half writes into the queues that they share.
const (
	fromLibrary = "written by the library"
	fromDriver  = "written by the driver"
)

var _ = memories.Add("user.memory.both-styles",
	"queue memory of the process, and queue memory of the driver, with the same hooks", func(t *validate.T) {
		s := newStage(t)
		a := s.app()
		pd := a.open().PD()
		t.Step("memory of the process")
		own := ownQueue(t)
		read := s.pinning(a, own, true)
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ with a queue in memory of the process")
		kit.Equal(t, "bytes that the driver reads in the process's queue", read(), fromLibrary)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")

		t.Step("memory of the driver")
		shared := s.mapping(a)
		cq, err = pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ with a queue in memory of the driver")
		kit.Equal(t, "bytes that the library reads in the driver's queue", shared.atLibrary(), fromDriver)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}, req.SAS2_4_02)

var _ = memories.Add("user.memory.of-the-process",
	"the driver's writes to queue memory of the process appear there, without a second copy", func(t *validate.T) {
		s := newStage(t)
		a := s.app()
		pd := a.open().PD()
		own := ownQueue(t)
		s.pinning(a, own, true)
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ with a queue in memory of the process")
		got := string(own.Bytes()[memorySize/2:][:len(fromDriver)])
		kit.Equal(t, "the process's bytes after the driver has written them", got, fromDriver)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}, req.SAS2_4_03)

// The case begins anew if the system has given the unmapped addresses to another mapping of this process, such as the
// stack of a new thread.
var _ = memories.Add("user.memory.unmapped",
	"queue memory that the process unmaps, or never had, gives errors and no crash", func(t *validate.T) {
		const most = 5
		for range most {
			if memoryStaysUnmapped(t) {
				return
			}
		}
		t.Inconclusive("addresses that the process had unmapped were mapped again %d times", most)
	}, req.SAS2_4_09)

// memoryStaysUnmapped reports false if the addresses were mapped again.
func memoryStaysUnmapped(t *validate.T) bool {
	s := newStage(t)
	a := s.app()
	other := s.app().open()
	pd := a.open().PD()
	own := ownQueue(t)
	s.pinning(a, own, true)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
	kit.OK(t, err, "PD.CreateCQ with a queue in memory of the process")
	m, err := s.probe.process().Memory(own.Addr(), memorySize, ci.LocalWrite)
	kit.OK(t, err, "Process.Memory of a queue")
	unpin, err := m.Pin()
	kit.OK(t, err, "Memory.Pin of a queue")
	t.Cleanup(unpin)
	var b [8]byte
	_, err = m.ReadAt(b[:], 0)
	kit.OK(t, err, "Memory.ReadAt of a queue")

	t.Step("memory that the process unmaps")
	if err := own.Close(); err != nil {
		t.Harness("unmapping the queue: %v", err)
	}
	_, err = m.ReadAt(b[:], 0)
	if err == nil && isMapped(t, own.Addr()) {
		return false
	}
	kit.True(t, err != nil, "Memory.ReadAt of a queue that is not mapped any more", "an error", "success")
	_, err = m.WriteAt(b[:], memorySize-8)
	if err == nil && isMapped(t, own.Addr()) {
		return false
	}
	kit.True(t, err != nil, "Memory.WriteAt of a queue that is not mapped any more", "an error", "success")
	kit.OK(t, cq.Destroy(), "CQ.Destroy after its memory was unmapped")
	_, err = other.Query()
	kit.OK(t, err, "CA.Query of another process")

	t.Step("memory that the process does not have")
	for _, r := range []struct {
		addr, n uint64
		want    ci.Status
	}{{own.Addr(), memorySize, ci.InvalidPermission}, {4096, memorySize, ci.InvalidPermission},
		{1 << 62, memorySize, ci.InvalidPermission}, {1<<63 - 4096, 4096, ci.InvalidPermission},
		{1<<63 - 4096, 4097, ci.InvalidParameter}, {1 << 63, 1, ci.InvalidParameter},
		{^uint64(0) - 10, memorySize, ci.InvalidParameter}, {own.Addr(), ^uint64(0), ci.InvalidParameter},
		{own.Addr(), 1 << 63, ci.InvalidParameter}} {
		_, err = s.probe.process().Memory(r.addr, r.n, ci.LocalWrite)
		if err == nil && isMapped(t, r.addr) {
			return false
		}
		kit.WantExactly(t, err, fmt.Sprintf("Process.Memory of %d bytes at %#x, which are not mapped", r.n, r.addr),
			r.want)
	}
	_, err = s.probe.process().Memory(4096, 0, ci.LocalWrite)
	kit.OK(t, err, "Process.Memory of no bytes")
	pinning := s.pinning(a, own, false)
	cq, err = pd.CreateCQ(ci.CQCreate{Size: 4})
	if err == nil && isMapped(t, own.Addr()) {
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
		return false
	}
	kit.WantExactly(t, err, "PD.CreateCQ with the address of memory that is not mapped", ci.InvalidPermission)
	kit.Equal(t, "bytes that the driver has read", pinning(), "")
	return true
}

var _ = memories.Add("user.memory.rights", "memory of which a page may not be written, or not be accessed",
	memoryRights, req.SAS2_4_09)

// memoryRights makes the middle one of three pages read-only, and then inaccessible. It stays mapped, so that the
// system gives its addresses to no one else.
func memoryRights(t *validate.T) {
	s := newStage(t)
	s.app().open()
	page := uint64(os.Getpagesize())
	b, protect, unmap, err := mapPages(3)
	if err != nil {
		t.Harness("three pages: %v", err)
	}
	t.Cleanup(unmap)
	clear(b)
	addr := uint64(reflect.ValueOf(b).Pointer())
	memory := func(first, n uint64, a ci.Access) error {
		_, err := s.probe.process().Memory(addr+first*page, n*page, a)
		return err
	}
	kit.OK(t, memory(0, 3, ci.LocalWrite), "Process.Memory, with write access, of three pages")

	t.Step("a page that may not be written")
	if err := protect(1, false); err != nil {
		t.Harness("a read-only page: %v", err)
	}
	kit.OK(t, memory(0, 3, 0), "Process.Memory, without write access, of pages of which one is read-only")
	kit.OK(t, memory(0, 1, ci.LocalWrite), "Process.Memory, with write access, of the page before a read-only one")
	kit.OK(t, memory(2, 1, ci.LocalWrite), "Process.Memory, with write access, of the page behind a read-only one")
	kit.WantExactly(t, memory(1, 1, ci.LocalWrite), "Process.Memory, with write access, of a read-only page",
		ci.InvalidPermission)
	kit.WantExactly(t, memory(0, 3,
		ci.LocalWrite), "Process.Memory, with write access, of pages of which the second is "+
		"read-only", ci.InvalidPermission)
	kit.WantExactly(t, memory(0, 2, ci.LocalWrite), "Process.Memory, with write access, of pages of which the last is "+
		"read-only", ci.InvalidPermission)

	t.Step("a page that may not be accessed")
	if err := protect(1, true); err != nil {
		t.Harness("an inaccessible page: %v", err)
	}
	kit.OK(t, memory(0, 1, 0), "Process.Memory of the page before an inaccessible one")
	kit.WantExactly(t, memory(1, 1, 0), "Process.Memory of an inaccessible page", ci.InvalidPermission)
	kit.WantExactly(t, memory(0, 3, 0), "Process.Memory of pages of which the second is inaccessible",
		ci.InvalidPermission)
	kit.WantExactly(t, memory(0, 2, 0), "Process.Memory of pages of which the last is inaccessible",
		ci.InvalidPermission)
	denied := []ci.Status{ci.InvalidPermission}
	for _, r := range []struct {
		at, n uint64
		want  []ci.Status
	}{{page - 1, 1, nil}, {page - 1, 2, denied}, {page, 1, denied}, {2*page - 1, 1, denied}, {2*page - 1, 2, denied},
		{2 * page, 1, nil}, {2 * page, page, nil}} {
		_, err := s.probe.process().Memory(addr+r.at, r.n, ci.LocalWrite)
		where := fmt.Sprintf("Process.Memory of %d bytes at byte %d of pages of which the second is inaccessible",
			r.n, r.at)
		if r.want == nil {
			kit.OK(t, err, where)
		} else {
			kit.WantExactly(t, err, where, r.want...)
		}
	}
}

// isMapped reports whether this process, in which the library runs, has a mapping with one of the bytes at addr.
func isMapped(t *validate.T, addr uint64) bool {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Harness("the mappings of the process: %v", err)
	}
	return overlaps(string(maps), addr, addr+memorySize)
}

// overlaps reports whether a mapping in the format of /proc/PID/maps has a byte in [from, to).
func overlaps(maps string, from, to uint64) bool {
	for line := range strings.Lines(maps) {
		var first, end uint64
		if _, err := fmt.Sscanf(line, "%x-%x ", &first, &end); err == nil && first < to && end > from {
			return true
		}
	}
	return false
}

var _ = memories.Add("user.memory.mapped",
	"the post hook maps memory that the driver has allocated, and both halves see each other's writes",
	memoryMapped, req.SAS2_4_14)

func memoryMapped(t *validate.T) {
	s := newStage(t)
	a := s.app()
	pd := a.open().PD()
	m := s.mapping(a)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
	kit.OK(t, err, "PD.CreateCQ with a queue in memory of the driver")
	kit.True(t, m.library != nil, "descriptors in the post hook", "one that can be mapped", "%s", m.problem)
	kit.Equal(t, "bytes of the driver at the library", m.atLibrary(), fromDriver)
	copy(m.library, fromLibrary)
	kit.Equal(t, "bytes of the library at the driver", string(m.driver.Bytes()[:len(fromLibrary)]), fromLibrary)
	kit.OK(t, cq.Destroy(), "CQ.Destroy")
}

// ownQueue returns memory of the process for a queue, which begins with fromLibrary. It can be unmapped.
func ownQueue(t *validate.T) *ual.Memory {
	m, err := ual.NewMemory(memorySize)
	if err != nil {
		t.Harness("memory for a queue: %v", err)
	}
	t.Cleanup(func() { _ = m.Close() }) // it may be closed
	copy(m.Bytes(), fromLibrary)
	return m
}

// pinning has the library name a queue of the process in its private data, and the driver pin it, read its beginning
// and, with write, write to its second half. The result returns what the driver has read.
func (s *stage) pinning(a *app, m *ual.Memory, write bool) func() string {
	addr, n := m.Addr(), uint64(memorySize)
	got := ""
	a.lib.after(nil)
	a.lib.before(func(verb string, _ any, ub *ci.UserBuffer) error {
		if verb == "CreateCQ" {
			ub.In = binary.LittleEndian.AppendUint64(nil, addr)
			ub.In = binary.LittleEndian.AppendUint64(ub.In, n)
		}
		return nil
	})
	s.probe.handle(func(verb string, ub *ci.UserBuffer) error {
		reply(ub)
		if verb != "CreateCQ" {
			return nil
		}
		m, err := s.probe.process().Memory(binary.LittleEndian.Uint64(ub.In), binary.LittleEndian.Uint64(ub.In[8:]),
			ci.LocalWrite)
		if err != nil {
			return err
		}
		unpin, err := m.Pin()
		if err != nil {
			return err
		}
		defer unpin()
		b := make([]byte, len(fromLibrary))
		if _, err := m.ReadAt(b, 0); err != nil {
			return err
		}
		got = string(b)
		if write {
			_, err = m.WriteAt([]byte(fromDriver), memorySize/2)
		}
		return err
	})
	return func() string { return got }
}

// mapped is memory of the driver, as both halves have it.
type mapped struct {
	driver  *ual.Memory
	library []byte
	problem string
}

// atLibrary returns what the library reads at the beginning of the memory.
func (m *mapped) atLibrary() string {
	if m.library == nil {
		return m.problem
	}
	return string(m.library[:len(fromDriver)])
}

// mapping has the driver pass memory by a descriptor, and the library map it in its post hook.
func (s *stage) mapping(a *app) *mapped {
	m := &mapped{driver: ownQueue(s.t), problem: "no descriptor"}
	copy(m.driver.Bytes(), fromDriver+"  ")
	a.lib.before(nil)
	s.probe.handle(func(verb string, ub *ci.UserBuffer) error {
		reply(ub)
		if verb == "CreateCQ" {
			f, _ := m.driver.File()
			ub.OutFiles = []*os.File{f}
		}
		return nil
	})
	a.lib.after(func(verb string, _ any, ub *ci.UserBuffer, err error) error {
		if verb != "CreateCQ" || err != nil || len(ub.OutFiles) != 1 {
			return nil
		}
		b, unmap, err := mapFile(ub.OutFiles[0], memorySize)
		if err != nil {
			m.problem = err.Error()
			return nil
		}
		s.t.Cleanup(unmap)
		m.library = b
		return nil
	})
	return m
}
