package mad_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/mad"
)

// checked is a layout with a Check method.
type checked interface {
	codec
	Check() error
}

// setValid sets the fields of an empty layout that Check requires not to be zero.
func setValid(v codec) {
	header := func(h *mad.Header, c mad.Class, version uint8) {
		h.BaseVersion, h.Class, h.ClassVersion = 1, c, version
	}
	switch v := v.(type) {
	case *mad.Header:
		header(v, 0, 0)
	case *mad.SMP:
		header(&v.Header, 0, 0)
	case *mad.SA:
		header(&v.Header, mad.ClassSubnetAdmin, mad.ClassVersionSubnetAdmin)
	case *mad.Perf:
		header(&v.Header, mad.ClassPerformance, mad.ClassVersionPerformance)
	case *mad.REQ:
		v.PathMTU = mad.MTU1024
	case *mad.IPCM:
		v.IPVersion = 6
	}
}

// TestCheckFindsAll checks that Check reports every reserved field that is not zero, and every value that is too large
// for a field that is narrower than its type, by the name of the field.
func TestCheckFindsAll(t *testing.T) {
	t.Parallel()
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			base, ok := l.make().(checked)
			switch l.make().(type) {
			case *mad.SMP, *mad.SA, *mad.Perf:
				ok = false // its Check is that of the common header, which is a layout of its own
			}
			if !ok {
				return // only headers and CM messages have Check
			}
			setValid(base)
			require.NoError(t, base.Check())
			width := map[string]int{}
			words := strings.Fields(l.fields)
			for i := 0; i+1 < len(words); i += 2 {
				for _, s := range parseSpans(t, words[i+1]) {
					width[words[i]] += s.n
				}
			}
			for i, f := range leaves("", reflect.ValueOf(base).Elem()) {
				v := l.make().(checked)
				setValid(v)
				to := leaves("", reflect.ValueOf(v).Elem())[i].v
				var kind error
				switch {
				case strings.Contains(f.name, "Reserved"):
					kind = mad.ErrReserved
					if to.Kind() == reflect.Array {
						to = to.Index(to.Len() - 1)
					}
					to.SetUint(1)
				case f.v.CanUint() && width[f.name] < f.v.Type().Bits():
					kind = mad.ErrRange
					if f.name == "IPVersion" {
						kind = mad.ErrVersion
					}
					to.SetUint(1 << width[f.name])
				default:
					continue
				}
				refused := []error{v.Check()}
				if m, ok := v.(mad.CMMessage); ok {
					h := mad.CMHeader(1, m)
					_, err := mad.AppendCM(nil, &h, m)
					refused = append(refused, err)
				}
				for _, err := range refused {
					require.ErrorIs(t, err, kind, f.name)
					var e *mad.Error
					require.ErrorAs(t, err, &e)
					assert.Equal(t, f.name, e.Field)
					assert.Contains(t, []string{l.name, "Header"}, e.Layout)
				}
			}
		})
	}
}
