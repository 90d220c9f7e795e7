package memlimit

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestGroups(t *testing.T) {
	for name, x := range map[string]struct {
		group string
		files map[string]string
		want  int64
	}{
		"none":      {group: "0::/\n", want: math.MaxInt64},
		"unlimited": {group: "0::/a\n", files: map[string]string{"a/memory.max": "max\n"}, want: math.MaxInt64},
		"own":       {group: "0::/a/b\n", files: map[string]string{"a/b/memory.max": "4096\n"}, want: 4096},
		"above": {group: "0::/a/b\n", files: map[string]string{"a/memory.max": "7\n", "a/b/memory.max": "9\n"},
			want: 7},
		"container": {group: "0::/../x\n", files: map[string]string{"memory.max": "5\n"}, want: 5},
		"version 1": {group: "3:cpu:/\n9:memory:/a\n",
			files: map[string]string{"memory/a/memory.limit_in_bytes": "6\n"}, want: 6},
		"hybrid": {group: "9:pids,memory:/a\n0::/\n",
			files: map[string]string{"memory/a/memory.limit_in_bytes": "6\n", "memory.max": "5\n"}, want: 5},
		"bad":        {group: "nonsense\n1:2\n", files: map[string]string{"memory.max": "5\n"}, want: math.MaxInt64},
		"bad number": {group: "0::/\n", files: map[string]string{"memory.max": "-5\n"}, want: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			group := filepath.Join(t.TempDir(), "cgroup")
			require.NoError(t, os.WriteFile(group, []byte(x.group), 0o600))
			for name, text := range x.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
			}
			assert.Equal(t, x.want, groups(group, root))
		})
	}
	assert.Equal(t, int64(math.MaxInt64), groups("/none", "/none"))
}

func TestShare(t *testing.T) {
	assert.EqualValues(t, 4<<30, share(math.MaxInt64, 4, 4<<30))
	assert.EqualValues(t, 1<<20, share(4<<20, 4, 4<<30))
	assert.EqualValues(t, 16*page, share(0, 4, 4<<30))
	assert.Positive(t, Memory())
	assert.LessOrEqual(t, 8*ClientQueues(), max(Memory(), 8*16*page))
}

// TestAddressSpace limits the address space. Half of what the process has not mapped is left.
func TestAddressSpace(t *testing.T) {
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_AS, &before))
	const limit = 1 << 46 // the race detector maps terabytes
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: before.Max}))
	left := addressSpace()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &before))
	assert.Positive(t, left)
	assert.Less(t, left, int64(limit-32<<20)/2)
}

// TestUseOneHeap has a process with a limited address space, which executes itself again, once.
func TestUseOneHeap(t *testing.T) {
	const name = "CIDDK_USE_ONE_HEAP"
	if os.Getenv(name) != "" {
		UseOneHeap()
		fmt.Println(heaps, os.Getenv(heaps))
		return
	}
	const script = "unset " + heaps + "; ulimit -v 9000000000000000 && exec \"$0\" -test.run '^TestUseOneHeap$'"
	cmd := exec.Command("sh", "-c", script, os.Args[0])
	cmd.Env = append(os.Environ(), name+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, 1, strings.Count(string(out), heaps+" 1\n"), "%s", out)
}
