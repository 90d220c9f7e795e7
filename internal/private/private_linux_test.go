package private

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// another is a user that is neither this one nor root.
const another = 54321

func TestDir(t *testing.T) {
	for name, x := range map[string]struct {
		prepare  func(t *testing.T, base string) // base is private
		path     string                          // below base
		want     string                          // below base; empty: path
		err      string                          // empty: none
		needRoot bool
	}{
		"new":            {path: "a/b/c"},
		"dots":           {path: "a/./b/../c", want: "a/c"},
		"readable":       {prepare: mkdir("a", 0o755), path: "a"},
		"sticky parent":  {prepare: mkdir("a", 0o1777), path: "a/b"},
		"link":           {prepare: symlink("x", "a"), path: "a/b", want: "x/b"},
		"endless link":   {prepare: symlink("a", "a"), path: "a/b", err: "too many levels"},
		"file":           {prepare: file("a"), path: "a", err: "not a directory"},
		"below a file":   {prepare: file("a"), path: "a/b", err: "not a directory"},
		"others write":   {prepare: mkdir("a", 0o777), path: "a", err: "others can write"},
		"group writes":   {prepare: mkdir("a", 0o770), path: "a", err: "others can write"},
		"sticky":         {prepare: mkdir("a", 0o1777), path: "a", err: "others can write"},
		"below writable": {prepare: mkdir("a", 0o777), path: "a/b/c", err: "others can write"},
		"above writable": {prepare: mkdir("a", 0o777), path: "a/../b", err: "others can write"},

		"foreign":        {prepare: foreign(mkdir("a", 0o755), "a"), path: "a", err: "another user", needRoot: true},
		"foreign parent": {prepare: foreign(mkdir("a", 0o755), "a"), path: "a/b", err: "another user", needRoot: true},
		"foreign in sticky": {prepare: func(t *testing.T, base string) {
			mkdir("a", 0o1777)(t, base)
			foreign(mkdir("a/b", 0o755), "a/b")(t, base)
		}, path: "a/b/c", err: "another user", needRoot: true},
		"foreign link in sticky": {prepare: func(t *testing.T, base string) {
			mkdir("a", 0o1777)(t, base)
			foreign(symlink("../x", "a/b"), "a/b")(t, base)
		}, path: "a/b", err: "another user", needRoot: true},
	} {
		t.Run(name, func(t *testing.T) {
			if x.needRoot && os.Geteuid() != 0 {
				t.Skip("only root can make files of another user")
			}
			base, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			if x.prepare != nil {
				x.prepare(t, base)
			}
			before := names(t, base)
			got, err := Dir(base + "/" + x.path)
			if x.err != "" {
				require.ErrorContains(t, err, x.err)
				assert.Equal(t, before, names(t, base), "nothing was created")
				return
			}
			require.NoError(t, err)
			if x.want == "" {
				x.want = x.path
			}
			assert.Equal(t, filepath.Join(base, x.want), got)
			again, err := Dir(got)
			require.NoError(t, err)
			assert.Equal(t, got, again)
		})
	}
	_, err := Dir("relative")
	assert.ErrorContains(t, err, "absolute")
	_, err = Dir("/tmp")
	assert.Error(t, err)
}

func mkdir(name string, mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, base string) {
		if mode&0o1000 != 0 {
			mode = mode&0o777 | os.ModeSticky
		}
		require.NoError(t, os.Mkdir(filepath.Join(base, name), 0o700))
		require.NoError(t, os.Chmod(filepath.Join(base, name), mode))
	}
}

func symlink(target, name string) func(*testing.T, string) {
	return func(t *testing.T, base string) { require.NoError(t, os.Symlink(target, filepath.Join(base, name))) }
}

func file(name string) func(*testing.T, string) {
	return func(t *testing.T, base string) {
		require.NoError(t, os.WriteFile(filepath.Join(base, name), nil, 0o600))
	}
}

func foreign(prepare func(*testing.T, string), name string) func(*testing.T, string) {
	return func(t *testing.T, base string) {
		prepare(t, base)
		require.NoError(t, os.Lchown(filepath.Join(base, name), another, another))
	}
}

// names returns the files below a directory.
func names(t *testing.T, base string) (list []string) {
	require.NoError(t, filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
		list = append(list, path)
		return err
	}))
	return list
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := Replace("unix", path)
	require.NoError(t, err)
	info, err := os.Lstat(path)
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Perm()&0o077, "nobody else can connect")
	_, err = Replace("unix", path)
	require.ErrorIs(t, err, ErrServed)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	l, err = Replace("unix", path)
	require.NoError(t, err, "a socket that is left over")
	require.NoError(t, l.Close())
	for name, prepare := range map[string]func(*testing.T, string){"file": file("x"), "dir": mkdir("x", 0o700),
		"link": symlink(path, "x")} {
		dir := t.TempDir()
		prepare(t, dir)
		_, err = Replace("unix", filepath.Join(dir, "x"))
		require.ErrorContains(t, err, "no socket", name)
		_, err = os.Lstat(filepath.Join(dir, "x"))
		require.NoError(t, err, "%s is still there", name)
	}
}

func TestCheckPeer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, CheckPeer(c))
	require.NoError(t, CheckUser(0))
	require.ErrorContains(t, CheckUser(another), "another user")
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	require.Error(t, CheckPeer(a))
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	// SO_PEERCRED is that of the process when it listened: a thread with another user stands for one.
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer syscall.Close(fd)
	theirs := strings.TrimSuffix(path, "socket") + "theirs"
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: theirs}))
	listenAs(t, fd)
	c, err = net.Dial("unix", theirs)
	require.NoError(t, err)
	defer c.Close()
	require.ErrorContains(t, CheckPeer(c), "another user")
}

// listenAs listens with the credentials of another user.
func listenAs(t *testing.T, fd int) {
	done := make(chan error)
	go func() {
		// Without UnlockOSThread, the thread ends with the goroutine.
		runtime.LockOSThread()
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), another, ^uintptr(0))
		if errno != 0 {
			done <- errno
			return
		}
		done <- syscall.Listen(fd, 1)
	}()
	require.NoError(t, <-done)
}
