package mutant

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate/mutant/tap"
)

// TestCompound checks that each compound changes requests that have both features, and none that has one of them.
func TestCompound(t *testing.T) {
	plain := func() post {
		return post{create: ci.QPCreate{Type: ci.RD, QPCaps: ci.QPCaps{SendDepth: 5}}, list: 1, nth: 1,
			wr: ci.SendWR{Op: ci.OpNop, Flags: ci.SendSignaled, SGL: []ci.SGE{{Length: 300, LKey: 1}}}}
	}
	for _, operation := range operations {
		for _, boundary := range boundaries {
			for _, effect := range effects {
				c := compound{operation, boundary, effect}
				for with, want := range map[string]bool{"": false, "o": false, "b": false, "ob": true} {
					p := plain()
					for _, f := range with {
						map[rune]feature{'o': operation, 'b': boundary}[f].give(&p)
					}
					require.Equal(t, want, c.hits(&p), "%s %s: %q", operation.name, boundary.name, with)
					if want {
						was := tap.CopySends([]ci.SendWR{p.wr})[0]
						effect.change(&p.wr)
						assert.NotEqual(t, was, p.wr, "%s %s %s", operation.name, boundary.name, effect.does)
					}
				}
			}
		}
	}
	does := map[string]bool{}
	for _, m := range Compounds(1, 200).All() {
		again, err := (&Set{}).Get(m.Name)
		require.NoError(t, err)
		assert.Equal(t, m.Does, again.Does)
		does[m.Does] = true
	}
	assert.Greater(t, len(does), 100, "different compounds of 200")
	_, err := (&Set{}).Get("compound.1")
	assert.Error(t, err)
}
