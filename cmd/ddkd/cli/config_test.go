package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestQuotaKeys checks that the configuration file can set every field of kproxy.Quota, and that no two keys set the
// same one.
func TestQuotaKeys(t *testing.T) {
	var text strings.Builder
	text.WriteString("quota:\n")
	keys := reflect.TypeFor[quotaConfig]()
	for i := range keys.NumField() {
		fmt.Fprintf(&text, "  %s: %d\n", keys.Field(i).Tag.Get("yaml"), 1000+i)
	}
	file := filepath.Join(t.TempDir(), "ddkd.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	c, err := readConfig(file)
	require.NoError(t, err)

	quota := reflect.ValueOf(c.Quota.quota())
	require.Equal(t, keys.NumField(), quota.NumField(), "kproxy.Quota and the keys of the file")
	names := map[int64]string{}
	for i := range quota.NumField() {
		name, n := quota.Type().Field(i).Name, quota.Field(i).Int()
		assert.GreaterOrEqual(t, n, int64(1000), "no key sets %s", name)
		assert.Empty(t, names[n], "the key that sets %s sets another field, too", name)
		names[n] = name
	}
}

// TestQuotaByName checks the keys of the documentation against the fields that they set.
func TestQuotaByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ddkd.yaml")
	text := "quota: {event-queues: 3, queues: 4, memory: 5, events: 6, pending: 7, multicast: 8, mappings: 9}\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := readConfig(file)
	require.NoError(t, err)
	q := c.Quota.quota()
	assert.Equal(t, 3, q.EventQueues)
	assert.EqualValues(t, 4, q.QueueBytes)
	assert.EqualValues(t, 5, q.MemoryBytes)
	assert.Equal(t, 6, q.Events)
	assert.Equal(t, 7, q.Pending)
	assert.Equal(t, 8, q.Mcasts)
	assert.Equal(t, 9, q.Mappings)
}

// TestAdapterNumbers checks that the values of an adapter's keys may be numbers.
func TestAdapterNumbers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ddkd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("adapters: [{address: 10.0.0.1, port: 4791, on: true}]\n"), 0o600))
	c, err := readConfig(file)
	require.NoError(t, err)
	assert.Equal(t, []Settings{{"address": "10.0.0.1", "port": "4791", "on": "true"}}, c.Adapters)
}
