package verbs

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/internal/seccomp"
)

// TestPaths finds files by unusual paths and with unusual functions, with both carriers, as root and as another user.
func TestPaths(t *testing.T) {
	program := compile(t, "paths.c")
	for user, open := range map[string]func(*testing.T) *rig{
		"own": newRig,
		"ordinary": func(t *testing.T) *rig {
			allow(t, program)
			return newRigOfUsers(t, programUser, programUser)
		},
	} {
		for _, carrier := range []string{"preload", "seccomp"} {
			t.Run(user+","+carrier, func(t *testing.T) {
				if err := seccomp.Check(); carrier == "seccomp" && err != nil {
					t.Skip(err)
				}
				assert.Equal(t, "done\n", open(t).run("--carrier", carrier, program, carrier))
			})
		}
	}
}

// TestEnvironments starts children with environments of their own, by each function of the C library that does so.
func TestEnvironments(t *testing.T) {
	r := newRig(t)
	assert.Equal(t, "done\n", r.run(compile(t, "environment.c")))
	assert.Contains(t, r.run("env", "-i", "/usr/bin/ibv_devices"), "rxe_ddk0")
}
