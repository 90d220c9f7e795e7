package prm

import (
	"encoding/binary"
	"fmt"
)

// A Field is a run of bits in a structure of big-endian numbers.
type Field struct {
	Name   string
	Layout *Layout
	Off    int   // of the number that has the bits, in bytes
	Size   uint8 // of the number: 1, 2, 4 or 8 bytes
	Low    uint8 // the lowest bit, counted from the least significant one
	Width  uint8 // in bits
}

// A Layout is a structure.
type Layout struct {
	Name   string
	Size   int // in bytes
	Source string
	Fields []Field // in the order of their definition

	isUnion bool // fields overlap, because the structure has several forms
}

// layouts are all layouts, in the order of their definition.
var layouts []*Layout

// Layouts returns all layouts.
func Layouts() []*Layout { return append([]*Layout(nil), layouts...) }

// newLayout defines a layout.
func newLayout(name string, size int, source string) *Layout {
	l := &Layout{Name: name, Size: size, Source: source}
	layouts = append(layouts, l)
	return l
}

// newUnion defines a layout whose fields may overlap.
func newUnion(name string, size int, source string) *Layout {
	l := newLayout(name, size, source)
	l.isUnion = true
	return l
}

// field defines the bits high to low of the number of size bytes at off. It panics for one that does not fit, which is
// a mistake in the table.
func (l *Layout) field(off int, size, high, low uint8, name string) Field {
	if off+int(size) > l.Size || high < low || high >= 8*size {
		panic(fmt.Sprintf("prm: %s of %s does not fit", name, l.Name))
	}
	f := Field{Name: name, Layout: l, Off: off, Size: size, Low: low, Width: high - low + 1}
	l.Fields = append(l.Fields, f)
	return f
}

// bits defines the bits high to low of the dword at off.
func (l *Layout) bits(off int, high, low uint8, name string) Field {
	return l.field(off, 4, high, low, name)
}

// byteBits defines the bits high to low of the byte at off.
func (l *Layout) byteBits(off int, high, low uint8, name string) Field {
	return l.field(off, 1, high, low, name)
}

func (l *Layout) u8(off int, name string) Field  { return l.field(off, 1, 7, 0, name) }
func (l *Layout) u16(off int, name string) Field { return l.field(off, 2, 15, 0, name) }
func (l *Layout) u32(off int, name string) Field { return l.field(off, 4, 31, 0, name) }
func (l *Layout) u64(off int, name string) Field { return l.field(off, 8, 63, 0, name) }

// mac defines an Ethernet address, the low 48 bits of 8 bytes.
func (l *Layout) mac(off int) Field { return l.field(off, 8, 47, 0, "mac") }

// Get returns the value of the field in b, which has at least Layout.Size bytes.
func (f *Field) Get(b []byte) uint64 {
	return f.number(b) >> f.Low & f.Max()
}

// Has reports whether a bit of the field is set.
func (f *Field) Has(b []byte) bool { return f.Get(b) != 0 }

// Put sets the field in b to the low bits of v. Other bits do not change.
func (f *Field) Put(b []byte, v uint64) {
	mask := f.Max() << f.Low
	v = f.number(b)&^mask | v<<f.Low&mask
	switch f.Size {
	case 1:
		b[f.Off] = byte(v)
	case 2:
		binary.BigEndian.PutUint16(b[f.Off:], uint16(v))
	case 4:
		binary.BigEndian.PutUint32(b[f.Off:], uint32(v))
	default:
		binary.BigEndian.PutUint64(b[f.Off:], v)
	}
}

// Max returns the largest value of the field.
func (f *Field) Max() uint64 { return 1<<f.Width - 1 }

func (f *Field) number(b []byte) uint64 {
	switch f.Size {
	case 1:
		return uint64(b[f.Off])
	case 2:
		return uint64(binary.BigEndian.Uint16(b[f.Off:]))
	case 4:
		return uint64(binary.BigEndian.Uint32(b[f.Off:]))
	}
	return binary.BigEndian.Uint64(b[f.Off:])
}

// Bytes returns the n bytes of b from the field on, for what is no number, such as a GID.
func (f *Field) Bytes(b []byte, n int) []byte { return b[f.Off : f.Off+n : f.Off+n] }
