package testenv_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/internal/testenv"
)

func TestOutput(t *testing.T) {
	var o testenv.Output
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	ready, again, end := o.Seen("is ready"), o.Seen("is ready"), o.Seen("end")
	for _, text := range []string{"it is ", "re"} {
		_, _ = io.WriteString(&o, text)
		assert.False(t, closed(ready), "%q", o.String())
	}
	_, _ = io.WriteString(&o, "ady\n")
	assert.True(t, closed(ready), "the text came in parts")
	assert.True(t, closed(again))
	assert.True(t, closed(o.Seen("is ready")), "it came before")
	assert.True(t, closed(o.Seen("")))
	assert.False(t, closed(end))
	assert.Equal(t, "it is ready\n", o.String())
}
