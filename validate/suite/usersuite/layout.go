package usersuite

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// Whole bodies, by the text of package native, as body.go: what a client in another language writes and reads.

// encode returns the body of a value, which is a pointer to a type of package schema.
func encode(v any) []byte {
	var w bodyWriter
	w.values(reflect.ValueOf(v).Elem())
	w.pad()
	return w.b
}

// bodyWriter is a body that is being written.
type bodyWriter struct{ b []byte }

func (w *bodyWriter) grow(n int) (at int) {
	at = len(w.b)
	w.b = append(w.b, make([]byte, n)...)
	return at
}

func (w *bodyWriter) pad() { w.grow(padded(len(w.b), 8) - len(w.b)) }

// values appends the fixed parts of values of one type, then their lists.
func (w *bodyWriter) values(list ...reflect.Value) {
	if len(list) == 0 {
		return
	}
	n, _ := extent(list[0].Type())
	at := w.grow(n * len(list))
	var inner []reflect.Value
	for i, v := range list {
		inner = append(inner, w.fixed(v, at+i*n)...)
	}
	for _, v := range inner {
		w.pad()
		elements := make([]reflect.Value, v.Len())
		for i := range elements {
			elements[i] = v.Index(i)
		}
		w.values(elements...)
	}
}

// fixed writes the fixed part of a value, and returns the lists in it that are not empty.
func (w *bodyWriter) fixed(v reflect.Value, at int) (lists []reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			n, a := extent(v.Field(i).Type())
			at = padded(at, a)
			lists = append(lists, w.fixed(v.Field(i), at)...)
			at += n
		}
	case reflect.Array:
		n, _ := extent(v.Type().Elem())
		for i := range v.Len() {
			lists = append(lists, w.fixed(v.Index(i), at+i*n)...)
		}
	case reflect.Slice, reflect.String:
		binary.LittleEndian.PutUint32(w.b[at:], uint32(v.Len()))
		if v.Len() > 0 {
			lists = append(lists, v)
		}
	case reflect.Bool:
		if v.Bool() {
			w.b[at] = 1
		}
	default:
		var all [8]byte
		if v.CanInt() {
			binary.LittleEndian.PutUint64(all[:], uint64(v.Int()))
		} else {
			binary.LittleEndian.PutUint64(all[:], v.Uint())
		}
		copy(w.b[at:], all[:v.Type().Size()])
	}
	return lists
}

// decode fills a value, a pointer to a type of package schema, from the body of a reply, which has nothing else.
func decode(b []byte, v any) error {
	r := bodyReader{b: b, used: make([]bool, len(b))}
	if err := r.values(reflect.ValueOf(v).Elem()); err != nil {
		return err
	}
	if want := padded(r.at, 8); len(b) != want {
		return fmt.Errorf("a body of %d bytes, want %d", len(b), want)
	}
	for i, x := range b {
		if x != 0 && !r.used[i] {
			return fmt.Errorf("byte %d, which is padding, is %#x", i, x)
		}
	}
	return nil
}

// bodyReader is a body that is being read. used are the bytes that belong to a field that need not be zero.
type bodyReader struct {
	b    []byte
	used []bool
	at   int
}

// values reads the fixed parts of values of one type, then their lists.
func (r *bodyReader) values(list ...reflect.Value) error {
	n, _ := extent(list[0].Type())
	at := r.at
	if r.at += n * len(list); r.at > len(r.b) {
		return fmt.Errorf("a body of %d bytes ends before byte %d", len(r.b), r.at)
	}
	var inner []reflect.Value
	for i, v := range list {
		lists, err := r.fixed(v, at+i*n)
		if err != nil {
			return err
		}
		inner = append(inner, lists...)
	}
	for _, v := range inner {
		r.at = padded(r.at, 8)
		if v.Kind() == reflect.String { // its count is its length
			n := v.Len()
			if r.at+n > len(r.b) {
				return fmt.Errorf("a text of %d bytes at byte %d of %d", n, r.at, len(r.b))
			}
			v.SetString(string(r.b[r.at : r.at+n]))
			r.mark(r.at, n)
			r.at += n
			continue
		}
		elements := make([]reflect.Value, v.Len())
		for i := range elements {
			elements[i] = v.Index(i)
		}
		if err := r.values(elements...); err != nil {
			return err
		}
	}
	return nil
}

func (r *bodyReader) mark(at, n int) {
	for i := range n {
		r.used[at+i] = true
	}
}

// fixed reads the fixed part of a value, and returns the lists in it that are not empty, with their lengths.
func (r *bodyReader) fixed(v reflect.Value, at int) (lists []reflect.Value, err error) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			n, a := extent(v.Field(i).Type())
			at = padded(at, a)
			if m := (member{name: v.Type().Field(i).Name}); m.isZero() {
				at += n
				continue
			}
			inner, err := r.fixed(v.Field(i), at)
			if err != nil {
				return nil, err
			}
			lists = append(lists, inner...)
			at += n
		}
	case reflect.Array:
		n, _ := extent(v.Type().Elem())
		for i := range v.Len() {
			if _, err := r.fixed(v.Index(i), at+i*n); err != nil {
				return nil, err
			}
		}
	case reflect.Slice, reflect.String:
		n := int(binary.LittleEndian.Uint32(r.b[at:]))
		r.mark(at, 4)
		if n > len(r.b) {
			return nil, fmt.Errorf("a count of %d at byte %d of %d", n, at, len(r.b))
		}
		if v.Kind() == reflect.String {
			v.SetString(string(make([]byte, n)))
		} else {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		if n > 0 {
			lists = append(lists, v)
		}
	default:
		n := int(v.Type().Size())
		var all [8]byte
		copy(all[:], r.b[at:at+n])
		r.mark(at, n)
		x := binary.LittleEndian.Uint64(all[:])
		switch {
		case v.Kind() == reflect.Bool && x > 1:
			return nil, fmt.Errorf("a bool at byte %d is %d", at, x)
		case v.Kind() == reflect.Bool:
			v.SetBool(x == 1)
		case v.CanInt():
			shift := 64 - 8*n // extends the sign
			v.SetInt(int64(x<<shift) >> shift)
		default:
			v.SetUint(x)
		}
	}
	return lists, nil
}
