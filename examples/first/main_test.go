package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/internal/testenv"
)

func TestRun(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, "127.0.0.1", "127.0.0.2")
	var out bytes.Buffer
	run(t.Context(), &out)
	assert.Equal(t, "received \"Hello over RoCEv2\"\n", out.String())
}
