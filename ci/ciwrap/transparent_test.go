package ciwrap_test

import (
	"errors"
	"os"
	"reflect"
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/cimock"
)

// checkTransparent tests that a wrapper changes nothing: every verb of every object reaches the driver with the
// arguments given, and its results come back, objects wrapped but the same. It goes through package ci by reflection,
// so that a verb added there is tested here. It returns, by kind of object, how many faces stood in front of the
// driver's object.
func checkTransparent(t *testing.T, wrap func(ci.HCA) ci.HCA) map[string]int {
	ctrl := gomock.NewController(t)
	w := &walk{t: t, ctrl: ctrl, depth: map[string]int{}, seen: map[reflect.Type]bool{}}
	inner := cimock.NewMockHCA(ctrl)
	w.object(reflect.TypeFor[ci.HCA](), inner, wrap(inner))
	return w.depth
}

type walk struct {
	t     *testing.T
	ctrl  *gomock.Controller
	depth map[string]int
	seen  map[reflect.Type]bool
	n     uint64
}

var (
	errorType = reflect.TypeFor[error]()
	mocks     = map[reflect.Type]func(*gomock.Controller) any{
		reflect.TypeFor[ci.CA]():      func(c *gomock.Controller) any { return cimock.NewMockCA(c) },
		reflect.TypeFor[ci.UserCA]():  func(c *gomock.Controller) any { return cimock.NewMockUserCA(c) },
		reflect.TypeFor[ci.PD]():      func(c *gomock.Controller) any { return cimock.NewMockPD(c) },
		reflect.TypeFor[ci.AV]():      func(c *gomock.Controller) any { return cimock.NewMockAV(c) },
		reflect.TypeFor[ci.CQ]():      func(c *gomock.Controller) any { return cimock.NewMockCQ(c) },
		reflect.TypeFor[ci.SRQ]():     func(c *gomock.Controller) any { return cimock.NewMockSRQ(c) },
		reflect.TypeFor[ci.QP]():      func(c *gomock.Controller) any { return cimock.NewMockQP(c) },
		reflect.TypeFor[ci.Mcast]():   func(c *gomock.Controller) any { return cimock.NewMockMcast(c) },
		reflect.TypeFor[ci.MR]():      func(c *gomock.Controller) any { return cimock.NewMockMR(c) },
		reflect.TypeFor[ci.FMR]():     func(c *gomock.Controller) any { return cimock.NewMockFMR(c) },
		reflect.TypeFor[ci.MW]():      func(c *gomock.Controller) any { return cimock.NewMockMW(c) },
		reflect.TypeFor[ci.RDD]():     func(c *gomock.Controller) any { return cimock.NewMockRDD(c) },
		reflect.TypeFor[ci.EEC]():     func(c *gomock.Controller) any { return cimock.NewMockEEC(c) },
		reflect.TypeFor[ci.DMA]():     func(c *gomock.Controller) any { return cimock.NewMockDMA(c) },
		reflect.TypeFor[ci.Object]():  func(c *gomock.Controller) any { return cimock.NewMockObject(c) },
		reflect.TypeFor[ci.Process](): func(c *gomock.Controller) any { return cimock.NewMockProcess(c) },
		reflect.TypeFor[ci.Memory]():  func(*gomock.Controller) any { return ci.Bytes(make([]byte, 64)) },
	}
)

// object checks all verbs of one object, and then of the objects they made.
func (w *walk) object(typ reflect.Type, inner, outer any) {
	require.True(w.t, ci.Same(inner, outer), "%v: Unwrap does not lead to the driver's object", typ)
	faces := 0
	for o := outer; o != inner; faces++ {
		u, ok := o.(ci.Unwrapper)
		require.True(w.t, ok, "%v: %T has no Unwrap", typ, o)
		o = u.Unwrap()
	}
	w.depth[typ.Name()] = faces
	if w.seen[typ] {
		return
	}
	w.seen[typ] = true
	for m := range typ.Methods() {
		w.verb(typ, m, inner, outer, nil)
		if n := m.Type.NumOut(); n > 0 && m.Type.Out(n-1) == errorType {
			w.verb(typ, m, inner, outer, errors.New("as the driver said it"))
		}
	}
}

func (w *walk) verb(typ reflect.Type, m reflect.Method, inner, outer any, fail error) {
	name := typ.Name() + "." + m.Name
	var args []reflect.Value
	var match, results []any
	for i := range m.Type.NumIn() {
		in := m.Type.In(i)
		if m.Type.IsVariadic() && i == m.Type.NumIn()-1 {
			in = in.Elem()
		}
		v := w.value(in)
		args = append(args, v)
		if in.Kind() == reflect.Func {
			match = append(match, gomock.Not(gomock.Nil()))
		} else {
			match = append(match, v.Interface())
		}
	}
	for out := range m.Type.Outs() {
		switch {
		case out == errorType:
			results = append(results, fail)
		case fail != nil:
			results = append(results, reflect.Zero(out).Interface())
		default:
			results = append(results, w.value(out).Interface())
		}
	}
	w.ctrl.RecordCall(inner, m.Name, match...).Return(results...)
	got := reflect.ValueOf(outer).MethodByName(m.Name).Call(args)
	require.Len(w.t, got, len(results), name)
	for i, g := range got {
		out := m.Type.Out(i)
		if _, object := mocks[out]; object && results[i] != nil && m.Name != "Query" {
			w.object(out, results[i], g.Interface())
			continue
		}
		assert.Equal(w.t, results[i], g.Interface(), "%s, result %d", name, i)
	}
}

// value makes a value that differs from the zero value and from others, callbacks inside structures excepted.
func (w *walk) value(typ reflect.Type) reflect.Value {
	w.n++
	v := reflect.New(typ).Elem()
	switch typ.Kind() {
	case reflect.Interface:
		if mk := mocks[typ]; mk != nil {
			v.Set(reflect.ValueOf(mk(w.ctrl)))
		} else if typ.NumMethod() == 0 {
			v.Set(reflect.ValueOf(w.n))
		}
	case reflect.Func:
		v.Set(reflect.MakeFunc(typ, func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Pointer:
		if typ != reflect.TypeFor[*os.File]() {
			v.Set(reflect.New(typ.Elem()))
			v.Elem().Set(w.value(typ.Elem()))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(typ, 2, 2))
		for i := range 2 {
			v.Index(i).Set(w.value(typ.Elem()))
		}
	case reflect.Struct:
		for i := range typ.NumField() {
			if f := v.Field(i); f.CanSet() && f.Kind() != reflect.Func {
				f.Set(w.value(f.Type()))
			}
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("value")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(w.n % 100))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(w.n%100 + 1)
	}
	return v
}
