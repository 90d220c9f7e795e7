package native

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"ciddk/internal/kproxy/schema"
)

// Append appends the body of v, which is a pointer to a type of package schema.
func Append(b []byte, v any) []byte {
	e := encoder{b: b, start: len(b)}
	rv := reflect.ValueOf(v).Elem()
	l := layoutOf(rv.Type())
	at := e.grow(l.size)
	e.fixed(l, rv, at)
	e.rest()
	e.align()
	return e.b
}

// Parse fills v, a pointer to a type of package schema, from a body. It checks everything that the type's tags declare,
// and that the body has no other bytes. It never keeps b.
func Parse(b []byte, v any) error {
	rv := reflect.ValueOf(v).Elem()
	l := layoutOf(rv.Type())
	d := decoder{b: b}
	at, err := d.take(l.size)
	if err != nil {
		return err
	}
	if err := d.fixed(l, rv, at); err != nil {
		return err
	}
	if err := d.rest(); err != nil {
		return err
	}
	if err := d.align(); err != nil {
		return err
	}
	if d.at != len(b) {
		return fmt.Errorf("native: %d bytes after the end of the %s", len(b)-d.at, rv.Type().Name())
	}
	return nil
}

var errShort = errors.New("native: body is too short")

// layout is the compiled form of a type.
type layout struct {
	kind   reflect.Kind
	size   int
	align  int
	fields []field // struct
	elem   *layout // array, slice
	n      int     // array: elements
}

// field is a member of a structure.
type field struct {
	index   int // in the Go structure
	at      int // offset in the encoded structure
	name    string
	zero    bool // must be zero
	layout  *layout
	min     uint64
	max     uint64
	bounded bool
	handle  schema.Kind
	any     bool // a handle of any kind
	none    bool // a handle that may be zero
}

var layouts sync.Map // reflect.Type → *layout

func layoutOf(t reflect.Type) *layout {
	if l, ok := layouts.Load(t); ok {
		return l.(*layout)
	}
	l := compile(t)
	layouts.Store(t, l)
	return l
}

// compile returns the layout of a type. It panics for a type that the protocol cannot express: a test compiles all.
func compile(t reflect.Type) *layout {
	l := &layout{kind: t.Kind()}
	switch t.Kind() {
	case reflect.Bool, reflect.Uint8:
		l.size = 1
	case reflect.Uint16:
		l.size = 2
	case reflect.Uint32, reflect.Int32:
		l.size = 4
	case reflect.Uint64, reflect.Int64:
		l.size = 8
	case reflect.String:
		l.size = 4
	case reflect.Slice:
		l.size, l.elem = 4, layoutOf(t.Elem())
	case reflect.Array:
		l.elem, l.n = layoutOf(t.Elem()), t.Len()
		l.size, l.align = l.elem.size*l.n, l.elem.align
	case reflect.Struct:
		l.align = 1
		for i := range t.NumField() {
			f := compileField(t, i)
			l.align = max(l.align, f.layout.align)
			f.at = roundUp(l.size, f.layout.align)
			l.size = f.at + f.layout.size
			l.fields = append(l.fields, f)
		}
		l.size = roundUp(l.size, l.align)
	default:
		panic("native: no layout for " + t.String())
	}
	if l.align == 0 {
		l.align = max(l.size, 1)
	}
	return l
}

func compileField(t reflect.Type, i int) field {
	sf := t.Field(i)
	f := field{index: i, name: sf.Name, layout: layoutOf(sf.Type)}
	f.zero = sf.Name == "Reserved" || strings.HasPrefix(sf.Name, "Pad")
	f.min, _ = limit(t, sf, "min")
	f.max, f.bounded = limit(t, sf, "max")
	if k := sf.Type.Kind(); (k == reflect.Slice || k == reflect.String) && !f.bounded {
		panic(fmt.Sprintf("native: %v.%s has no max", t, sf.Name))
	}
	tag, ok := sf.Tag.Lookup("handle")
	name, option, _ := strings.Cut(tag, ",")
	isHandle := sf.Type == reflect.TypeFor[schema.Handle]() || sf.Type == reflect.TypeFor[[]schema.Handle]()
	if ok && !isHandle {
		panic(fmt.Sprintf("native: %v.%s is not a handle", t, sf.Name))
	}
	f.none = option == "optional"
	if f.any = name == "any"; !f.any && ok {
		if f.handle, ok = schema.KindNamed(name); !ok {
			panic(fmt.Sprintf("native: %v.%s: no kind %q", t, sf.Name, name))
		}
	}
	return f
}

func limit(t reflect.Type, sf reflect.StructField, tag string) (uint64, bool) {
	s, ok := sf.Tag.Lookup(tag)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("native: %v.%s: %s: %v", t, sf.Name, tag, err))
	}
	return n, true
}

func roundUp(n, align int) int { return (n + align - 1) / align * align }

// pending is a slice or string that is not empty, whose elements follow later.
type pending struct {
	v reflect.Value
	l *layout
	n int
	f *field
}

type encoder struct {
	b     []byte
	start int
	later []pending
}

// grow appends n zero bytes and returns their offset.
func (e *encoder) grow(n int) int {
	at := len(e.b)
	e.b = append(e.b, make([]byte, n)...)
	return at
}

func (e *encoder) align() { e.grow(roundUp(len(e.b)-e.start, 8) - (len(e.b) - e.start)) }

func (e *encoder) fixed(l *layout, v reflect.Value, at int) {
	b := e.b[at:]
	switch l.kind {
	case reflect.Bool:
		if v.Bool() {
			b[0] = 1
		}
	case reflect.Uint8:
		b[0] = byte(v.Uint())
	case reflect.Uint16:
		binary.LittleEndian.PutUint16(b, uint16(v.Uint()))
	case reflect.Uint32:
		binary.LittleEndian.PutUint32(b, uint32(v.Uint()))
	case reflect.Int32:
		binary.LittleEndian.PutUint32(b, uint32(v.Int()))
	case reflect.Uint64:
		binary.LittleEndian.PutUint64(b, v.Uint())
	case reflect.Int64:
		binary.LittleEndian.PutUint64(b, uint64(v.Int()))
	case reflect.String, reflect.Slice:
		binary.LittleEndian.PutUint32(b, uint32(v.Len()))
		if n := v.Len(); n > 0 {
			e.later = append(e.later, pending{v: v, l: l, n: n})
		}
	case reflect.Array:
		for i := range l.n {
			e.fixed(l.elem, v.Index(i), at+i*l.elem.size)
		}
	case reflect.Struct:
		for i := range l.fields {
			f := &l.fields[i]
			e.fixed(f.layout, v.Field(f.index), at+f.at)
		}
	}
}

// rest appends the elements of the slices found so far, each followed by those found in its elements.
func (e *encoder) rest() {
	list := e.later
	e.later = nil
	for _, p := range list {
		e.align()
		switch {
		case p.l.kind == reflect.String:
			e.b = append(e.b, p.v.String()...)
			continue
		case p.l.elem.kind == reflect.Uint8:
			e.b = append(e.b, p.v.Bytes()...)
			continue
		}
		at := e.grow(p.n * p.l.elem.size)
		for i := range p.n {
			e.fixed(p.l.elem, p.v.Index(i), at+i*p.l.elem.size)
		}
		e.rest()
	}
}

type decoder struct {
	b     []byte
	at    int
	later []pending
}

func (d *decoder) take(n int) (int, error) {
	if n < 0 || n > len(d.b)-d.at {
		return 0, errShort
	}
	at := d.at
	d.at += n
	return at, nil
}

func (d *decoder) align() error {
	at, err := d.take(roundUp(d.at, 8) - d.at)
	if err != nil {
		return err
	}
	return d.zero(at, d.at)
}

// zero checks padding.
func (d *decoder) zero(from, to int) error {
	for i := from; i < to; i++ {
		if d.b[i] != 0 {
			return fmt.Errorf("native: padding at byte %d is not zero", i)
		}
	}
	return nil
}

func (d *decoder) fixed(l *layout, v reflect.Value, at int) error {
	b := d.b[at:]
	switch l.kind {
	case reflect.Bool:
		if b[0] > 1 {
			return fmt.Errorf("native: %d is no bool", b[0])
		}
		v.SetBool(b[0] == 1)
	case reflect.Uint8:
		v.SetUint(uint64(b[0]))
	case reflect.Uint16:
		v.SetUint(uint64(binary.LittleEndian.Uint16(b)))
	case reflect.Uint32:
		v.SetUint(uint64(binary.LittleEndian.Uint32(b)))
	case reflect.Int32:
		v.SetInt(int64(int32(binary.LittleEndian.Uint32(b))))
	case reflect.Uint64:
		v.SetUint(binary.LittleEndian.Uint64(b))
	case reflect.Int64:
		v.SetInt(int64(binary.LittleEndian.Uint64(b)))
	case reflect.Array:
		for i := range l.n {
			if err := d.fixed(l.elem, v.Index(i), at+i*l.elem.size); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return d.structure(l, v, at)
	}
	return nil
}

func (d *decoder) structure(l *layout, v reflect.Value, at int) error {
	end := 0
	for i := range l.fields {
		f := &l.fields[i]
		if err := d.zero(at+end, at+f.at); err != nil {
			return err
		}
		end = f.at + f.layout.size
		if k := f.layout.kind; k == reflect.Slice || k == reflect.String {
			n := binary.LittleEndian.Uint32(d.b[at+f.at:])
			if uint64(n) > f.max {
				return fmt.Errorf("native: %s has %d elements, limit %d", f.name, n, f.max)
			}
			if n > 0 {
				d.later = append(d.later, pending{v: v.Field(f.index), l: f.layout, n: int(n), f: f})
			} else if s := v.Field(f.index); !s.IsZero() {
				s.SetZero()
			}
			continue
		}
		if err := d.fixed(f.layout, v.Field(f.index), at+f.at); err != nil {
			return err
		}
		if err := f.check(v.Field(f.index)); err != nil {
			return err
		}
	}
	return d.zero(at+end, at+l.size)
}

// check compares a value with the field's tags.
func (f *field) check(v reflect.Value) error {
	if f.zero && !v.IsZero() {
		return fmt.Errorf("native: %s is not zero", f.name)
	}
	if f.any || f.handle != schema.KindNone {
		return f.checkHandle(schema.Handle(v.Uint()))
	}
	if !v.CanUint() || !f.bounded && f.min == 0 {
		return nil
	}
	if n := v.Uint(); n < f.min || f.bounded && n > f.max {
		return fmt.Errorf("native: %s is %d, out of range", f.name, n)
	}
	return nil
}

func (f *field) checkHandle(h schema.Handle) error {
	switch {
	case h == 0 && f.none:
		return nil
	case f.any && h.Kind() != schema.KindNone && h.Kind() < schema.NumKinds:
		return nil
	case !f.any && h.Kind() == f.handle:
		return nil
	}
	return &HandleError{Field: f.name, Handle: h, Want: f.handle}
}

// HandleError reports a handle of another kind than the field declares.
type HandleError struct {
	Field  string
	Handle schema.Handle
	Want   schema.Kind
}

// Error names the field and the kinds.
func (e *HandleError) Error() string {
	return fmt.Sprintf("native: %s is a handle of kind %v, want %v", e.Field, e.Handle.Kind(), e.Want)
}

// rest reads the elements of the slices found so far.
func (d *decoder) rest() error {
	list := d.later
	d.later = nil
	for _, p := range list {
		if err := d.align(); err != nil {
			return err
		}
		if err := d.elements(p); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) elements(p pending) error {
	size := 1
	if p.l.kind == reflect.Slice {
		size = p.l.elem.size
	}
	at, err := d.take(p.n * size) // before anything is allocated for the elements
	if err != nil {
		return err
	}
	switch {
	case p.l.kind == reflect.String:
		p.v.SetString(string(d.b[at:d.at]))
		return nil
	case p.l.elem.kind == reflect.Uint8:
		p.v.SetBytes(append([]byte(nil), d.b[at:d.at]...))
		return nil
	}
	p.v.Set(reflect.MakeSlice(p.v.Type(), p.n, p.n))
	for i := range p.n {
		v := p.v.Index(i)
		if err := d.fixed(p.l.elem, v, at+i*size); err != nil {
			return err
		}
		if p.f.any || p.f.handle != schema.KindNone {
			if err := p.f.checkHandle(schema.Handle(v.Uint())); err != nil {
				return err
			}
		}
	}
	return d.rest()
}
