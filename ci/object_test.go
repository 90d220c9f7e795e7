package ci_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
)

// thing is an object of a driver, face a wrapper whose Unwrap reads the receiver, mask one that is a value.
type (
	thing struct {
		ci.CQ
		n int
	}
	face struct{ ci.CQ }
	mask struct{ ci.CQ }
)

func (f *face) Unwrap() any { return f.CQ }
func (m mask) Unwrap() any  { return m.CQ }

func TestAs(t *testing.T) {
	x := &thing{n: 7}
	for name, c := range map[string]struct {
		o    any
		want *thing
	}{
		"itself":                         {x, x},
		"behind a wrapper":               {&face{x}, x},
		"behind two":                     {mask{&face{x}}, x},
		"nil":                            {nil, nil},
		"a nil pointer of its type":      {(*thing)(nil), nil},
		"a nil pointer of a wrapper":     {(*face)(nil), nil},
		"a nil pointer to a value":       {(*mask)(nil), nil},
		"a wrapper of nil":               {mask{}, nil},
		"a wrapper of a nil pointer":     {mask{(*thing)(nil)}, nil},
		"a wrapper of a wrapper's nil":   {mask{(*face)(nil)}, nil},
		"a stranger":                     {42, nil},
		"a nil pointer to something":     {(*int)(nil), nil},
		"a pointer to a pointer is none": {&x, nil},
	} {
		got, ok := ci.As[*thing](c.o)
		assert.Equal(t, c.want != nil, ok, name)
		assert.Same(t, c.want, got, name)
		iface, ok := ci.As[ci.CQ](c.o)
		if c.want == nil {
			_, wrapper := c.o.(mask) // is a CQ itself
			assert.Equal(t, wrapper, ok, name)
			assert.Equal(t, wrapper, iface != nil, name)
		}
	}
}

func TestSame(t *testing.T) {
	x, y := &thing{n: 1}, &thing{n: 2}
	assert.True(t, ci.Same(x, mask{&face{x}}))
	assert.False(t, ci.Same(x, y))
	assert.False(t, ci.Same(x, (*face)(nil)))
	assert.False(t, ci.Same((*face)(nil), nil))
	assert.True(t, ci.Same(nil, nil))
}

func TestIsNil(t *testing.T) {
	for _, o := range []any{nil, (*thing)(nil), (*face)(nil), ci.CQ((*face)(nil))} {
		assert.True(t, ci.IsNil(o), "%T", o)
	}
	for _, o := range []any{&thing{}, mask{}, ci.Bytes(nil), 0} {
		assert.False(t, ci.IsNil(o), "%T", o)
	}
}

// A driver calls As for every datagram that is posted.
func TestAsDoesNotAllocate(t *testing.T) {
	var o ci.CQ = &face{&thing{}}
	var sink *thing
	assert.Zero(t, testing.AllocsPerRun(100, func() { sink, _ = ci.As[*thing](o) }))
	assert.NotNil(t, sink)
}

func BenchmarkAs(b *testing.B) {
	var o ci.CQ = &thing{}
	n := 0
	for b.Loop() {
		if _, ok := ci.As[*thing](o); ok {
			n++
		}
	}
	if n == 0 {
		b.Fatal("not found")
	}
}
