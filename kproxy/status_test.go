package kproxy_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/kproxy"
)

var updateStatus = flag.Bool("update-status", false, "write testdata/status.json")

// fillStatus sets every field to a value that differs from those of its neighbours.
func fillStatus(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fillStatus(field, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillStatus(v.Index(0), n)
	case reflect.Map:
		x := reflect.New(v.Type().Elem()).Elem()
		fillStatus(x, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), x)
	case reflect.String:
		v.SetString("text" + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	default:
		v.SetUint(uint64(*n))
	}
}

// TestStatusJSON compares the JSON form of the status with the file that scripts rely on: no key disappears or changes
// its type without a new StatusVersion.
func TestStatusJSON(t *testing.T) {
	st := new(kproxy.Status)
	n := 0
	fillStatus(reflect.ValueOf(st).Elem(), &n)
	st.Version = kproxy.StatusVersion
	text, err := json.MarshalIndent(st, "", "  ")
	require.NoError(t, err)
	const file = "testdata/status.json"
	if *updateStatus {
		require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(text))
}

// TestStatusDocumented checks that the documentation has every key of the status.
func TestStatusDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/ddkd.md")
	require.NoError(t, err)
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Slice:
			walk(of.Elem())
		case reflect.Struct:
			for field := range of.Fields() {
				key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				assert.NotEmpty(t, key, field.Name)
				assert.Contains(t, string(page), "`"+key+"`", "docs/ddkd.md has no key %s", key)
				walk(field.Type)
			}
		}
	}
	walk(reflect.TypeFor[kproxy.Status]())
}

// TestLimitsInLoad checks that every limit whose use is reported has a count of refusals, too.
func TestLimitsInLoad(t *testing.T) {
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	s, err := kproxy.New(kproxy.Config{AL: al})
	require.NoError(t, err)
	c, err := s.Open(kproxy.Peer{}, 64, "test")
	require.NoError(t, err)
	l := s.Load()
	for limit := range l.Fill {
		assert.Contains(t, l.Refusals, limit)
	}
	require.NoError(t, c.Close())
	after := s.Load()
	assert.Equal(t, slices.Sorted(maps.Keys(l.Fill)), slices.Sorted(maps.Keys(after.Fill)), "without clients")
	require.NoError(t, s.Close())
	require.NoError(t, al.Close())
}
