package debian

// enter is a script that runs a program in a root directory, where it sees the directory for temporary files.
const enter = `set -e
mount --make-rprivate /
mkdir -p "$0/proc" "$0/sys" "$0/dev" "$0/etc" "$0$1"
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
mount --rbind "$1" "$0$1"
root=$0
shift
exec chroot "$root" "$@"`

// Enter returns the command that runs a program, whose arguments are appended, in a root directory. It sees the
// machine's devices and the directory for temporary files, and needs root.
func Enter(root, temporary string) []string {
	return []string{"unshare", "-m", "sh", "-c", enter, root, temporary}
}
