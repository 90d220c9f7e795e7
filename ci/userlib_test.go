package ci_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
)

// accompanied is an object of a user access layer.
type accompanied struct {
	ci.CQ
	handle any
}

func (a *accompanied) UserHandle() any { return a.handle }

func TestUserHandle(t *testing.T) {
	x := &thing{n: 7}
	with, without := &accompanied{handle: x}, &accompanied{}
	for name, c := range map[string]struct {
		o    any
		want *thing
	}{
		"an object with a handle":         {with, x},
		"behind wrappers":                 {mask{&face{with}}, x},
		"an object without a handle":      {without, nil},
		"a handle of another type":        {&accompanied{handle: 7}, nil},
		"an object of no user library":    {x, nil},
		"nil":                             {nil, nil},
		"a nil pointer to such an object": {(*accompanied)(nil), nil},
	} {
		got, ok := ci.UserHandle[*thing](c.o)
		assert.Equal(t, c.want != nil, ok, name)
		assert.Same(t, c.want, got, name)
	}
	o := any(mask{&face{with}})
	assert.Zero(t, testing.AllocsPerRun(10, func() { ci.UserHandle[*thing](o) }))
}

// TestUserLibraryHooks checks the table of hooks against ib_uvp.h: 28 pairs and, in the objects that the create hooks
// set, 8 functions of the data path.
func TestUserLibraryHooks(t *testing.T) {
	hooks := 0
	for f := range reflect.TypeFor[ci.UserLibrary]().Fields() {
		if f.Type.Kind() != reflect.Struct {
			continue
		}
		hooks++
		isHook := strings.HasPrefix(f.Type.Name(), "UserHook[") || strings.HasPrefix(f.Type.Name(), "UserFallibleHook[")
		assert.True(t, isHook, f.Name)
		pre, ok := f.Type.FieldByName("Pre")
		assert.True(t, ok, f.Name)
		post, ok := f.Type.FieldByName("Post")
		assert.True(t, ok, f.Name)
		assert.Equal(t, pre.Type.In(0), post.Type.In(0), f.Name)
	}
	assert.Equal(t, 28, hooks)
	direct := 0
	types := []reflect.Type{reflect.TypeFor[ci.UserCQ](), reflect.TypeFor[ci.UserQP](), reflect.TypeFor[ci.UserSRQ]()}
	for _, typ := range types {
		for f := range typ.Fields() {
			if f.Type.Kind() == reflect.Func {
				direct++
			}
		}
	}
	assert.Equal(t, 8, direct)
}
