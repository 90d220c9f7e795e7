package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/kproxy/uverbs"
	"ciddk/kproxy"
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

// TestCheckedValues checks that ddkd check prints the values that a daemon uses, as a file that it accepts.
func TestCheckedValues(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ddkd.yaml")
	text := "socket: " + dir + "/s\nadapters: [{address: 10.0.0.1}]\nquota: {qps: 7}\nmax-clients: 9\n"
	drivers := []Driver{{Name: "one", Keys: map[string]string{"address": ""}, Verbs: []uverbs.Provider{{}}}}
	var printed string
	for range 2 {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		var b strings.Builder
		require.NoError(t, (&checkCmd{Config: file, drivers: drivers}).Run(t.Context(), &b))
		printed, text = text, b.String()
	}
	assert.Equal(t, printed, text, "printed again")
	c, err := readConfig(file)
	require.NoError(t, err)
	want := kproxy.Quota{QPs: 7}.WithDefaults()
	assert.Equal(t, want, c.Quota.quota())
	assert.Equal(t, 4096, c.Quota.PDs)
	assert.Equal(t, 9, c.MaxClients)
	assert.Equal(t, 1024, c.MaxClientsPerUser)
	assert.Equal(t, "own", c.CopyMemory)
	assert.Equal(t, time.Second, c.CopyTimeout)
	assert.Equal(t, dir+"/s.verbs", c.Verbs)
	quota := reflect.ValueOf(c.Quota)
	for i := range quota.NumField() {
		assert.NotZero(t, quota.Field(i).Int(), quota.Type().Field(i).Name)
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
