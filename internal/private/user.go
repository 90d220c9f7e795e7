package private

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// IsOwn reports whether a user ID, as the kernel states it for another process, is this process's or root's.
func IsOwn(uid int) bool { return isOwn(uid, os.Geteuid(), overflowUID(), mapsAll()) }

// isOwn is IsOwn for a process of the user own. Where not all users are mapped, the overflow ID can be anyone's.
func isOwn(uid, own, overflow int, mapsAll bool) bool {
	return uid == 0 || uid == own && (uid != overflow || mapsAll)
}

// CheckUser returns an error if the user of a process is neither this one nor root.
func CheckUser(uid int) error {
	if IsOwn(uid) {
		return nil
	}
	return fmt.Errorf("the process belongs to another user (%d)", uid)
}

// overflowUID returns the user ID that Linux shows for users that a user namespace does not map.
var overflowUID = sync.OnceValue(func() int {
	const usual = 65534
	b, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if n, e := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && e == nil {
		return n
	}
	return usual
})

// mapsAll reports whether this process's user namespace maps all users, as the first one of a system does.
var mapsAll = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || strings.Join(strings.Fields(string(b)), " ") == "0 0 4294967295"
})
