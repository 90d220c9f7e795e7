package validate

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// inherit passes files to a command and returns the names by which inherited finds them.
func inherit(cmd *exec.Cmd, in, out *os.File) (names string, err error) {
	attr := cmd.SysProcAttr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
		cmd.SysProcAttr = attr
	}
	for _, f := range []*os.File{in, out} {
		h := syscall.Handle(f.Fd())
		const flag = syscall.HANDLE_FLAG_INHERIT
		if err := syscall.SetHandleInformation(h, flag, flag); err != nil {
			return "", err
		}
		attr.AdditionalInheritedHandles = append(attr.AdditionalInheritedHandles, h)
	}
	return fmt.Sprintf("%d,%d", in.Fd(), out.Fd()), nil
}

// inherited opens a handle that the parent passed on. It is not inherited by programs that the driver starts.
func inherited(h uintptr, name string) *os.File {
	// An invalid handle fails at its first use.
	_ = syscall.SetHandleInformation(syscall.Handle(h), syscall.HANDLE_FLAG_INHERIT, 0)
	return os.NewFile(h, name)
}
