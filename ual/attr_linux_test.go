package ual_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/kproxy"
)

// fill sets every field to a value that differs from those of its neighbours.
func fill(v reflect.Value, n *int) {
	*n++
	switch {
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case v.Kind() == reflect.Array:
		fill(v.Index(0), n)
	case v.Kind() == reflect.String:
		v.SetString("text" + string(rune('a'+*n%26)))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(*n))
	default:
		v.SetUint(uint64(*n))
	}
}

// filledCA is an adapter whose port has a value in every field.
type filledCA struct {
	ciwrap.CA
	port ci.PortAttr
}

func (c filledCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err != nil {
		return nil, err
	}
	b := *a
	b.Ports = []ci.PortAttr{c.port}
	return &b, nil
}

// TestPortAttr checks that each field of a port's attributes arrives at a client.
func TestPortAttr(t *testing.T) {
	var want ci.PortAttr
	n := 0
	fill(reflect.ValueOf(&want).Elem(), &n)
	want.Num = 1 // ports are numbered
	r := newRigOf(t, kproxy.Config{}, func(h *reference.HCA) ci.HCA {
		return ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return filledCA{ciwrap.CA{CA: c}, want} }})
	})
	ca := r.open(r.dial(), nil)
	got, err := ca.Query()
	require.NoError(t, err)
	require.Len(t, got.Ports, 1)
	assert.Equal(t, want, got.Ports[0])
	require.NoError(t, ca.Destroy())
}
