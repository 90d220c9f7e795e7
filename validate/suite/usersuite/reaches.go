package usersuite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/ual"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = memories.Case(validate.Case{
	ID:    "user.memory.reach",
	Title: "a driver reads and writes exactly the bytes of memory of a process, by each means, while the process lives",
	Run:   memoryReach,
}, req.SAS2_4_09)

// guard is the number of bytes of a process before and behind the memory that it registers.
const guard = 1000

// reached is memory of a process as its driver has it.
type reached struct {
	t      *validate.T
	m      ci.Memory
	whole  []byte // the process's bytes, with those before and behind the memory
	model  []byte // what whole has to contain
	length int
}

func memoryReach(t *validate.T) {
	const length = 150_001 // more than two copies of the largest size, and no multiple of 8
	s := newStage(t)
	for _, v := range kit.Variants(t, "", []struct {
		what     string
		change   func(*kproxy.Config)
		isShared bool
	}{
		{"copies", func(*kproxy.Config) {}, false},
		{"copies with a limit of time", func(c *kproxy.Config) { c.LimitCopies = true }, false},
		{"copies by the application", func(c *kproxy.Config) { c.ClientCopies = true }, false},
		{"shared memory", func(*kproxy.Config) {}, true},
	}) {
		s.restart(v.change)
		a := s.app()
		pd, err := a.open().AllocatePD(ci.PDNormal)
		kit.OK(t, err, "CA.AllocatePD")
		x := &reached{t: t, length: length}
		memory := ci.Bytes
		if v.isShared {
			shared, err := ual.NewMemory(length + 2*guard)
			if err != nil {
				t.Harness("shared memory: %v", err)
			}
			t.Cleanup(func() { _ = shared.Close() }) // it may be closed
			x.whole = shared.Bytes()
			f, _ := shared.File()
			memory = func(b []byte) ci.Memory { return fileMemory{ci.Bytes(b), f, guard} }
		} else {
			x.whole = make([]byte, length+2*guard)
		}
		x.model = bytes.Clone(kit.Random(t, x.whole))
		own := memory(x.whole[guard:][:length])
		_, err = pd.RegisterMR(ci.MRCreate{Memory: own, Access: ci.LocalWrite})
		kit.OK(t, err, "PD.RegisterMR")
		x.m = s.probe.lastMemory()
		kit.Equal(t, "Memory.Addr and Memory.Len at the driver", [2]uint64{x.m.Addr(), x.m.Len()},
			[2]uint64{own.Addr(), length})
		x.edges()
		for range 20 {
			x.random()
		}
		x.slices()
		x.pieces()
		x.atomics()
		unpin, err := x.m.Pin()
		kit.OK(t, err, "Memory.Pin")
		unpin()
		proc := s.probe.process()
		a.cut()
		s.gone("the daemon after the end of the process")
		_, err = proc.Memory(own.Addr(), length, 0)
		kit.WantExactly(t, err, "Process.Memory after the end of the process", ci.InvalidState)
		if !v.isShared { // the driver has destroyed the region, and must not use shared memory any more
			x.ended()
		}
	}
}

// fileMemory is memory of a file.
type fileMemory struct {
	ci.Memory
	f   *os.File
	off int64
}

func (m fileMemory) File() (*os.File, int64) { return m.f, m.off }

// read reads at an offset, and compares the bytes and the result with the model.
func (x *reached) read(off int64, n int) {
	where := fmt.Sprintf("Memory.ReadAt of %d bytes at offset %d of %d", n, off, x.length)
	p := bytes.Repeat([]byte{0xee}, n)
	got, err := x.m.ReadAt(p, off)
	switch {
	case off < 0 || off > int64(x.length):
		kit.WantExactly(x.t, err, where, ci.InvalidParameter)
		kit.Equal(x.t, "bytes of "+where, got, 0)
		return
	case int64(n) > int64(x.length)-off:
		kit.True(x.t, err != nil, where, "an error", "success")
		kit.True(x.t, int64(got) <= int64(x.length)-off, where, "no bytes beyond the end", "%d", got)
	default:
		kit.OK(x.t, err, where)
		kit.Equal(x.t, "bytes of "+where, got, n)
	}
	kit.SameBytes(x.t, where, p[:got], x.model[guard+off:][:got])
}

// write writes random bytes at an offset by a function, and compares the memory with the model.
func (x *reached) write(where string, off int64, n int, write func(p []byte) (int, error)) {
	where = fmt.Sprintf("%s of %d bytes at offset %d of %d", where, n, off, x.length)
	p := kit.Random(x.t, make([]byte, n))
	got, err := write(p)
	if off < 0 || off > int64(x.length) || int64(n) > int64(x.length)-off {
		kit.WantExactly(x.t, err, where, ci.InvalidParameter)
	} else {
		kit.OK(x.t, err, where)
		kit.Equal(x.t, "bytes of "+where, got, n)
		copy(x.model[guard+off:], p)
	}
	x.same("bytes of the process after " + where)
}

func (x *reached) same(where string) { kit.SameBytes(x.t, where, x.whole, x.model) }

func (x *reached) writeAt(off int64, n int) {
	x.write("Memory.WriteAt", off, n, func(p []byte) (int, error) { return x.m.WriteAt(p, off) })
}

// edges accesses the memory at its ends.
func (x *reached) edges() {
	end := int64(x.length)
	for _, off := range []int64{0, 1, end - 1, end, end + 1, -1, math.MinInt64, math.MaxInt64} {
		for _, n := range []int{0, 1, 2, x.length - 1, x.length, x.length + 1} {
			x.read(off, n)
			x.writeAt(off, n)
		}
	}
}

// random accesses some bytes.
func (x *reached) random() {
	off := x.t.Rand().IntN(x.length + 10)
	n := x.t.Rand().IntN(x.length - min(off, x.length) + 10)
	x.read(int64(off), n)
	x.writeAt(int64(off), n)
}

// slices compares views of memory that the daemon can address.
func (x *reached) slices() {
	if x.m.Slice(0, 1) == nil {
		return
	}
	for _, r := range [][2]int{{0, x.length}, {x.length - 1, 1}, {7, 8}, {4096, 5000}, {x.length, 0}} {
		got := x.m.Slice(uint64(r[0]), uint64(r[1]))
		kit.True(x.t, r[1] == 0 || len(got) > 0 && len(got) <= r[1], "Memory.Slice", fmt.Sprintf("1 to %d bytes", r[1]),
			"%d", len(got))
		kit.SameBytes(x.t, "Memory.Slice", got, x.model[guard+r[0]:][:len(got)])
	}
}

// pieceMemory is memory that takes several pieces at once.
type pieceMemory interface {
	WritePieces(pieces [][]byte, n int, off int64) error
}

// pieces writes several pieces at once.
func (x *reached) pieces() {
	m, ok := x.m.(pieceMemory)
	if !ok {
		return
	}
	end := int64(x.length)
	for _, r := range []struct {
		off   int64
		n     int
		piece int
	}{{0, x.length, 1 << 16}, {3, 70_000, 700}, {end - 9, 9, 4}, {end, 0, 1}, {end - 1, 2, 1}, {-1, 1, 1},
		{0, x.length + 1, 1 << 16}, {end + 1, 0, 1}, {64 << 10, 64 << 10, 64 << 10}, {1, 130, 1}} {
		x.write("PieceMemory.WritePieces", r.off, r.n, func(p []byte) (int, error) {
			list := [][]byte{{}}
			for rest := p; len(rest) > 0; {
				k := min(r.piece, len(rest))
				list = append(list, rest[:k], nil)
				rest = rest[k:]
			}
			return r.n, m.WritePieces(list, r.n, r.off)
		})
	}
}

// atomics executes atomics at aligned addresses.
func (x *reached) atomics() {
	m, ok := x.m.(ci.AtomicMemory)
	if !ok {
		return
	}
	order := binary.NativeEndian
	for _, off := range []int{0, 8, 4096, x.length&^7 - 8} {
		at := x.model[guard+off:]
		old := order.Uint64(at)
		got, err := m.CompareSwap(uint64(off), old+1, 5)
		kit.OK(x.t, err, "AtomicMemory.CompareSwap of another value")
		kit.Equal(x.t, "result of AtomicMemory.CompareSwap of another value", got, old)
		x.same("bytes of the process after a compare of another value")
		got, err = m.CompareSwap(uint64(off), old, old^0x0102030405060708)
		kit.OK(x.t, err, "AtomicMemory.CompareSwap")
		kit.Equal(x.t, "result of AtomicMemory.CompareSwap", got, old)
		order.PutUint64(at, old^0x0102030405060708)
		x.same("bytes of the process after a swap")
		got, err = m.FetchAdd(uint64(off), 1<<40+3)
		kit.OK(x.t, err, "AtomicMemory.FetchAdd")
		kit.Equal(x.t, "result of AtomicMemory.FetchAdd", got, old^0x0102030405060708)
		order.PutUint64(at, old^0x0102030405060708+1<<40+3)
		x.same("bytes of the process after an addition")
	}
	for _, off := range []int{x.length &^ 7, x.length + 7, 1 << 40} { // 8 bytes there exceed the memory
		_, err := m.CompareSwap(uint64(off), 0, 0)
		kit.WantExactly(x.t, err, "AtomicMemory.CompareSwap beyond the end", ci.InvalidParameter)
		_, err = m.FetchAdd(uint64(off), 0)
		kit.WantExactly(x.t, err, "AtomicMemory.FetchAdd beyond the end", ci.InvalidParameter)
	}
	x.same("bytes of the process after atomics beyond the end")
}

// ended accesses memory of a process that has ended.
func (x *reached) ended() {
	b := make([]byte, 8)
	_, err := x.m.ReadAt(b, 0)
	kit.WantExactly(x.t, err, "Memory.ReadAt after the end of the process", ci.InvalidState)
	_, err = x.m.WriteAt(b, 0)
	kit.WantExactly(x.t, err, "Memory.WriteAt after the end of the process", ci.InvalidState)
	if m, ok := x.m.(pieceMemory); ok {
		kit.WantExactly(x.t, m.WritePieces([][]byte{b}, len(b), 0),
			"PieceMemory.WritePieces after the end of the process", ci.InvalidState)
	}
	if m, ok := x.m.(ci.AtomicMemory); ok {
		_, err = m.CompareSwap(0, 0, 1)
		kit.WantExactly(x.t, err, "AtomicMemory.CompareSwap after the end of the process", ci.InvalidState)
		_, err = m.FetchAdd(0, 1)
		kit.WantExactly(x.t, err, "AtomicMemory.FetchAdd after the end of the process", ci.InvalidState)
	}
	x.same("bytes of the process after its end")
}
