package testenv

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddresses(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	port := c.LocalAddr().(*net.UDPAddr).Port
	o := Try(t, func(t testing.TB) { Addresses(t, port, "127.0.0.1") })
	assert.Empty(t, o.Skipped)
	require.Len(t, o.Errors, 1)
	assert.Contains(t, o.Errors[0], "the address that this test needs is in use: listen udp 127.0.0.1:")
	require.NoError(t, c.Close())
	for range 2 { // no sockets remain open
		assert.Empty(t, Try(t, func(t testing.TB) { Addresses(t, port, "127.0.0.1") }))
	}
	o = Try(t, func(t testing.TB) { Addresses(t, port, "127.0.0.1", "192.0.2.1") }) // TEST-NET-1: no machine has it
	assert.Contains(t, o.Skipped, "this test needs the address 192.0.2.1: ")
	assert.Empty(t, o.Errors)
}

func TestTry(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    func(testing.TB)
		want Outcome
	}{
		{"goes well", func(t testing.TB) { t.Helper() }, Outcome{}},
		{"goes on after errors", func(t testing.TB) {
			t.Error("a", 1)
			t.Errorf("b %d", 2)
			t.Fail()
		}, Outcome{Errors: []string{"a1", "b 2", "Fail"}}},
		{"Fatal", func(t testing.TB) { t.Fatal("a"); t.Error("b") }, Outcome{Errors: []string{"a"}}},
		{"Fatalf", func(t testing.TB) { t.Fatalf("a %d", 1); t.Error("b") }, Outcome{Errors: []string{"a 1"}}},
		{"FailNow", func(t testing.TB) { t.FailNow(); t.Error("b") }, Outcome{Errors: []string{"FailNow"}}},
		{"FailNow after the reason", func(t testing.TB) { t.Error("a"); t.FailNow(); t.Error("b") },
			Outcome{Errors: []string{"a"}}},
		{"Skip", func(t testing.TB) { t.Skip("a"); t.Error("b") }, Outcome{Skipped: "a"}},
		{"Skipf", func(t testing.TB) { t.Skipf("a %d", 1); t.Error("b") }, Outcome{Skipped: "a 1"}},
		{"SkipNow", func(t testing.TB) { t.SkipNow(); t.Error("b") }, Outcome{Skipped: "SkipNow"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Try(t, tt.f)
			assert.Equal(t, tt.want, o)
		})
	}
	Try(t, func(u testing.TB) {
		assert.False(t, u.Failed())
		assert.False(t, u.Skipped())
		assert.Same(t, t.Context(), u.Context())
		u.Error("a")
		assert.True(t, u.Failed())
	})
}
