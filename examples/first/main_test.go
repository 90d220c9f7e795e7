package main

import (
	"bytes"
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRun runs the program while another one uses the first loopback address.
func TestRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address")
	}
	taken, err := net.ListenPacket("udp", "127.0.0.1:4791")
	if err == nil { // else it is in use anyway
		defer taken.Close()
	}
	var out bytes.Buffer
	run(t.Context(), &out)
	assert.Equal(t, "received \"Hello over RoCEv2\"\n", out.String())
}
