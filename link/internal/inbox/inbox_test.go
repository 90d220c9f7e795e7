package inbox

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Recv ends with its context, and bears several callers.
func TestQueue(t *testing.T) {
	q := New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := q.Recv(ctx)
	require.ErrorIs(t, err, context.Canceled)
	for i := range Room + 5 {
		q.Put([]byte{byte(i)})
	}
	require.Len(t, q.list, Room)
	got := make(chan []byte, 2)
	for range 2 {
		go func() {
			b, _ := q.Recv(t.Context())
			got <- b
		}()
	}
	a, b := <-got, <-got
	assert.ElementsMatch(t, []byte{0, 1}, []byte{a[0], b[0]})
	require.True(t, q.Close())
	require.False(t, q.Close())
	for range 2 {
		go func() {
			_, err := q.Recv(context.WithoutCancel(t.Context()))
			assert.ErrorIs(t, err, ErrClosed)
			got <- nil
		}()
	}
	<-got
	<-got
}
