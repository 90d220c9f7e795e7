package debian

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"ciddk/internal/private"
)

// Set is a set of packages.
type Set struct {
	Name     string // of the directory in the cache
	Suite    string
	Archive  Archive
	Packages []string
	Cache    string // directory for sets; "": that of the user
}

// An Archive has packages in Debian's format. The zero value is that of Debian.
type Archive struct {
	Origin     string // as in the machine's apt sources
	Address    string // if they do not have it
	Keyring    string // in /usr/share/keyrings
	Components string
}

// debianArchive is the archive of sets that name none. Its keys are those of package debian-archive-keyring.
var debianArchive = Archive{Origin: "Debian", Keyring: "debian-archive-keyring.gpg", Components: "main"}

// VersionsFile is the file in a root with its packages and their versions, one a line.
const VersionsFile = "packages"

// Root returns the directory with the packages. It unpacks them if the cache of the user does not have them, or if
// check fails for what it has. Nobody else can have written there. A lock keeps two processes from unpacking at the
// same time.
func (s Set) Root(ctx context.Context, check func(root string) error) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("debian: the packages are for amd64, and this is %s", runtime.GOARCH)
	}
	cache, err := s.Cache, error(nil)
	if cache == "" {
		cache, err = os.UserCacheDir()
	}
	if err != nil { // no HOME, as in a service
		cache = filepath.Join(os.TempDir(), fmt.Sprintf("ciddk-cache-%d", os.Getuid()))
	}
	dir, err := private.Dir(filepath.Join(cache, "ciddk-debian", s.Name))
	if err != nil {
		return "", fmt.Errorf("debian: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("debian: %s: %w", lock.Name(), err)
	}
	if check == nil {
		check = func(string) error { return nil }
	}
	sum := sha256.Sum256([]byte(s.Suite + " " + strings.Join(s.Packages, " ")))
	root := filepath.Join(dir, fmt.Sprintf("root-%x", sum[:4]))
	if _, err := os.Stat(filepath.Join(root, VersionsFile)); err == nil && check(root) == nil {
		return root, nil
	}
	if err := s.install(ctx, dir, root); err != nil {
		return "", err
	}
	return root, check(root)
}

// Versions returns the versions of a root's packages by name.
func Versions(root string) (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(root, VersionsFile))
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), "\t")
		versions[name] = version
	}
	return versions, nil
}
