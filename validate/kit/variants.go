package kit

import (
	"fmt"
	"iter"
	"reflect"

	"ciddk/validate"
)

// Variants returns a sequence of the variants that a case runs. It makes each variant the case's step, so that a
// failure names it. label is what a variant is, such as "size". It may be empty if the variants have names: a String
// method, or a string field called what, name, title or kind in a struct.
//
//	for _, delta := range kit.Variants(t, "PSN", []int{1000, -1001}) {
//
// Loops over variants can be nested. The step then has the names of both variants.
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
		t.Step("%s", outer) // not deferred, so that a case that ends within a variant keeps its step
	}
}

// variant returns the name of a variant.
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
		} else if hasPlainFields(v) {
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

// nameOf returns the value of the field that names a struct, or "".
func nameOf(v reflect.Value) string {
	for _, field := range []string{"what", "name", "title", "kind"} {
		if f := v.FieldByName(field); f.IsValid() && f.Kind() == reflect.String {
			return f.String()
		}
	}
	return ""
}

// hasPlainFields reports whether a struct has only numbers and strings.
func hasPlainFields(v reflect.Value) bool {
	for _, field := range v.Fields() {
		if !isPlain(field.Kind()) {
			return false
		}
	}
	return true
}

// isPlain reports whether values of the kind are numbers or strings.
func isPlain(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Complex128 || k == reflect.String
}
