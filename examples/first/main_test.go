package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	run(t.Context(), &out)
	assert.Equal(t, "received \"Hello over RoCEv2\"\n", out.String())
}
