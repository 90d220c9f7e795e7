package explore

import (
	"fmt"
	"reflect"
	"strings"
)

// literal returns a Go expression for a value, without fields that are zero.
func literal(v any) string { return literalOf(reflect.ValueOf(v), true) }

func literalOf(v reflect.Value, named bool) string {
	typ := ""
	if named {
		typ = v.Type().String()
	}
	switch v.Kind() {
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				fields = append(fields, v.Type().Field(i).Name+": "+literalOf(f, f.Kind() != reflect.Interface))
			}
		}
		return typ + "{" + strings.Join(fields, ", ") + "}"
	case reflect.Slice, reflect.Array:
		elem := v.Type().Elem().Kind()
		var list []string
		for i := range v.Len() {
			list = append(list, literalOf(v.Index(i), elem == reflect.Interface))
		}
		return typ + "{" + strings.Join(list, ", ") + "}"
	case reflect.Interface:
		return literalOf(v.Elem(), true)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() > 99 {
			return fmt.Sprintf("%#x", v.Uint())
		}
		return fmt.Sprint(v.Uint())
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Int:
		return fmt.Sprint(v.Int())
	}
	return fmt.Sprintf("%v", v.Interface())
}
