package usersuite

import (
	"encoding/binary"
	"reflect"
	"strconv"
	"strings"
)

// The layout of bodies as package native documents it, written from that text and without its code: a client in
// another language has nothing else.

// member is a field of a body that has a fixed offset.
type member struct {
	name string
	at   int
	typ  reflect.Type
	tag  reflect.StructTag
}

// isZero reports whether the field must be zero.
func (m *member) isZero() bool { return m.name == "Reserved" || strings.HasPrefix(m.name, "Pad") }

// limit returns the limit that a tag of the field states.
func (m *member) limit(tag string) (uint64, bool) {
	n, err := strconv.ParseUint(m.tag.Get(tag), 10, 64)
	return n, err == nil
}

// extent returns size and alignment of a type: as in C, with a 32-bit count in the place of a slice or string.
func extent(t reflect.Type) (size, align int) {
	switch t.Kind() {
	case reflect.Slice, reflect.String:
		return 4, 4
	case reflect.Array:
		size, align = extent(t.Elem())
		return size * t.Len(), align
	case reflect.Struct:
		align = 1
		for i := range t.NumField() {
			n, a := extent(t.Field(i).Type)
			size, align = padded(size, a)+n, max(align, a)
		}
		return padded(size, align), align
	}
	return int(t.Size()), int(t.Size())
}

// padded returns the next multiple of an alignment.
func padded(n, align int) int { return (n + align - 1) / align * align }

// members returns the fields of a type that begins at an offset, those of structures in it one by one.
func members(t reflect.Type, at int) (list []member) {
	for i := range t.NumField() {
		f := t.Field(i)
		n, a := extent(f.Type)
		at = padded(at, a)
		if f.Type.Kind() == reflect.Struct {
			list = append(list, members(f.Type, at)...)
		} else {
			list = append(list, member{f.Name, at, f.Type, f.Tag})
		}
		at += n
	}
	return list
}

// newBody returns a body of a type with zero fields. Fields with a lower bound have it.
func newBody(t reflect.Type) []byte {
	n, _ := extent(t)
	b := make([]byte, padded(n, 8))
	for _, m := range members(t, 0) {
		if least, ok := m.limit("min"); ok {
			m.put(b, least)
		}
	}
	return b
}

// put writes a number, or the count of a slice or string.
func (m *member) put(b []byte, v uint64) {
	n, _ := extent(m.typ)
	var all [8]byte
	binary.LittleEndian.PutUint64(all[:], v)
	copy(b[m.at:m.at+min(n, 8)], all[:])
}
