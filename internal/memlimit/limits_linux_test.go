package memlimit

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
