package kit

import (
	"fmt"
	"iter"
	"reflect"

	"ciddk/validate"
)

// Variants ranges over the variants that a case runs, and makes each the case's step, so that a failure names the one it
// happened in. label is what a variant is, such as "size"; it may be empty where variants have names of their own: those of a struct type
// with a string field called what, name, title or kind, or a String method.
//
//	for _, delta := range kit.Variants(t, "PSN", []int{1000, -1001}) {
//
// Variants in a function that a variant of another list calls are named behind it.
func Variants[E any](t *validate.T, label string, list []E) iter.Seq2[int, E] {
	return func(yield func(int, E) bool) {
		outer := t.CurrentStep()
		for i, x := range list {
			step := variant(label, i, x)
			if outer != "" {
				step = outer + ", " + step
			}
			t.Step("%s", step)
			if !yield(i, x) {
				break
			}
		}
		t.Step("%s", outer) // not deferred: a case that ends within a variant ends within its step
	}
}

// variant is the name of a variant.
func variant(label string, i int, x any) string {
	text := fmt.Sprintf("%d of the variants", i+1)
	v := reflect.ValueOf(x)
	s, isStringer := x.(fmt.Stringer)
	switch {
	case !v.IsValid():
		text = "nil"
	case isStringer && v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface:
		text = s.String()
	case v.Kind() == reflect.Struct:
		if name := nameOf(v); name != "" {
			text = name
		} else if plain(v) {
			text = fmt.Sprintf("%+v", x)
		}
	case v.Kind() == reflect.Array || v.Kind() == reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			text = fmt.Sprintf("%x", x)
		}
	case isPlain(v.Kind()):
		text = fmt.Sprint(x)
	}
	if label == "" {
		return text
	}
	return label + " " + text
}

// nameOf finds the name in a struct.
func nameOf(v reflect.Value) string {
	for _, field := range []string{"what", "name", "title", "kind"} {
		if f := v.FieldByName(field); f.IsValid() && f.Kind() == reflect.String {
			return f.String()
		}
	}
	return ""
}

// plain reports whether a struct holds numbers and words alone.
func plain(v reflect.Value) bool {
	for i := range v.NumField() {
		if !isPlain(v.Field(i).Kind()) {
			return false
		}
	}
	return true
}

// isPlain reports whether a value of the kind is worth printing.
func isPlain(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Complex128 || k == reflect.String
}
