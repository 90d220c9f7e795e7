package kit

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTrap checks that a store waits until the handler has run. An operation that loads before the handler and stores
// after it loses the handler's addition. An atomic one does not.
func TestTrap(t *testing.T) {
	var tr *Trap
	runs := 0
	tr, err := NewTrap(func() { runs++; AddWord(tr.Host, 1) })
	if err != nil {
		t.Skip(err)
	}
	for i := range 50 {
		StoreWord(tr.Host, 0)
		require.NoError(t, tr.Set())
		AddWord(tr.Bytes, 100)
		assert.EqualValues(t, 101, LoadWord(tr.Host), "round %d", i)

		StoreWord(tr.Host, 0)
		require.NoError(t, tr.Set())
		old := binary.NativeEndian.Uint64(tr.Bytes)
		binary.NativeEndian.PutUint64(tr.Bytes, old+100)
		assert.Zero(t, old) // so that the load is not merged with the store
		assert.EqualValues(t, 100, LoadWord(tr.Host), "round %d: the handler's addition is lost", i)
	}
	assert.NoError(t, tr.Close())
	assert.Equal(t, 100, runs)
}
