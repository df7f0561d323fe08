//go:build !linux

package main

import "os"

func expectAnyOrder(*os.File) error { return nil }
