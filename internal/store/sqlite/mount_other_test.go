//go:build !linux

package sqlite

import "errors"

func mountMemory(string, string) error { return errors.ErrUnsupported }
func growMemory(string, string) error  { return errors.ErrUnsupported }
func remount(string, bool) error       { return errors.ErrUnsupported }
func unmount(string)                   {}
