package model

import "ciddk/bus"

// queueBuffer is the buffer of one queue. It remembers a run of pages, as the card does, which caches MTTs: those of a
// queue do not change while the hardware owns it. What the host unmaps cannot be reached nevertheless: the pages are
// looked up in its map at each access. The zero value has no memory. One goroutine at a time uses it.
type queueBuffer struct {
	buffer
	from, addr, run uint64 // run bytes from offset from on are at addr

	view   bus.View // the access in progress
	isHeld bool     // until release

	window      []byte // of the access that hold has begun: what direct has found last
	windowAt    uint64 // its offset
	canWriteWin bool
}

// page returns the host's address of a byte, and how many bytes follow it contiguously.
func (b *queueBuffer) page(off, want uint64) (addr, n uint64, ok bool) {
	if d := off - b.from; d < b.run {
		return b.addr + d, b.run - d, true
	}
	if off < b.size {
		want = b.size - off
	}
	if addr, n, ok = b.buffer.page(off, want); ok {
		b.from, b.addr, b.run = off, addr, n
	}
	return addr, n, ok
}

// read copies bytes of the buffer. It reports false if they are outside of it or not mapped.
func (b *queueBuffer) read(off uint64, p []byte) bool {
	if !b.has(off, uint64(len(p))) {
		return false
	}
	if s := b.direct(off, uint64(len(p)), false); s != nil {
		n := copy(p, s)
		b.end()
		if n == len(p) {
			return true
		}
	}
	if addr, n, ok := b.page(off, uint64(len(p))); ok && n >= uint64(len(p)) {
		return b.m.readHost(addr, p)
	}
	return accessPages(b.m, b, off, p, false)
}

// write copies to the buffer.
func (b *queueBuffer) write(off uint64, p []byte) bool {
	return b.has(off, uint64(len(p))) && accessPages(b.m, b, off, p, true)
}

// readDword reads a dword of the buffer.
func (b *queueBuffer) readDword(off uint64) (v [dwordSize]byte, ok bool) {
	if !b.has(off, dwordSize) {
		return v, false
	}
	addr, _, ok := b.page(off, dwordSize)
	if !ok {
		return v, false
	}
	return b.m.readDword(addr)
}

// direct returns a view of up to n bytes of the buffer, fewer where they are not contiguous, or none. They begin at a
// dword. The caller ends the view if there are bytes.
func (b *queueBuffer) direct(off, n uint64, write bool) []byte {
	if !b.has(off, n) {
		return nil
	}
	if d := off - b.windowAt; d < uint64(len(b.window)) && (b.canWriteWin || !write) {
		if s := b.window[d:]; n <= uint64(len(s)) && isDwordAligned(s) {
			return s[:n]
		}
	}
	addr, run, ok := b.page(off, n)
	if !ok || !b.begin() {
		return nil
	}
	s := b.view.Slice(addr, min(b.size-off, run), write)
	if b.isHeld {
		b.window, b.windowAt, b.canWriteWin = s, off, write
	}
	s = s[:min(n, uint64(len(s)))]
	if len(s) < dwordSize || !isDwordAligned(s) {
		b.end()
		return nil
	}
	return s
}

// begin begins an access to the memory of the host, unless hold has begun one.
func (b *queueBuffer) begin() bool {
	if b.isHeld {
		return true
	}
	h := b.m.host.Load()
	if h == nil {
		return false
	}
	b.view = h.Memory().Begin()
	return true
}

// end ends what begin has begun.
func (b *queueBuffer) end() {
	if !b.isHeld {
		b.view.End()
	}
}

// hold begins one access for all calls of direct and publish up to release, which saves the work of beginning and
// ending each. The host cannot unmap memory meanwhile.
func (b *queueBuffer) hold() {
	if !b.isHeld {
		b.isHeld = b.begin()
	}
}

// release ends the access of hold.
func (b *queueBuffer) release() {
	if b.isHeld {
		b.isHeld, b.window = false, nil
		b.view.End()
	}
}

// publish writes an entry of a queue, its last dword after the others.
func (b *queueBuffer) publish(off uint64, entry []byte) bool {
	last := len(entry) - dwordSize
	if s := b.direct(off, uint64(len(entry)), true); s != nil {
		isWhole := len(s) == len(entry)
		if isWhole {
			copy(s[:last], entry)
			storeDword(s[last:], [dwordSize]byte(entry[last:]))
		}
		b.end()
		if isWhole {
			return true
		}
	}
	if !b.has(off, uint64(len(entry))) || !b.write(off, entry[:last]) {
		return false
	}
	addr, _, ok := b.page(off+uint64(last), dwordSize)
	return ok && b.m.writeDword(addr, [dwordSize]byte(entry[last:]))
}
