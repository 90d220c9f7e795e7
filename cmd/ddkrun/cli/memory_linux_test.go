package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestMemoryFor checks what ddkrun --explain says about memory that a program registers.
func TestMemoryFor(t *testing.T) {
	const (
		byDaemon  = "the daemon copies from and to memory"
		byProgram = "the program copies from and to memory"
		shared    = "only memory that is shared"
		unknown   = "the daemon copies from and to memory that is not shared if it runs as this user"
	)
	for _, x := range []struct {
		whose        string
		user, daemon int
		want         string
	}{
		{"own", 5, 5, byDaemon}, {"own", 0, 0, byDaemon}, {"own", 0, 5, byProgram}, {"own", 6, 5, shared},
		{"own", 6, 0, shared}, {"own", 5, unknownUser, unknown}, {"own", 0, unknownUser, byProgram},
		{"all", 5, 5, byDaemon}, {"all", 6, 5, byProgram}, {"all", 6, 0, byDaemon}, {"all", 6, unknownUser, byProgram},
		{"none", 5, 5, shared}, {"none", 0, 5, shared}, {"none", 6, unknownUser, shared},
	} {
		assert.Regexp(t, "^"+x.want, memoryFor(x.whose, x.user, x.daemon, true), "%+v", x)
		if x.want == shared {
			assert.Regexp(t, "^none", memoryFor(x.whose, x.user, x.daemon, false), "%+v", x)
		}
	}
	assert.Equal(t, os.Getuid(), ownerOf(os.Getpid()))
	assert.Equal(t, unknownUser, ownerOf(0))
	assert.Equal(t, unknownUser, ownerOf(-3))
}
