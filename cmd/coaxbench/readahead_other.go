//go:build !linux

package main

import "os"

func forget(*os.File) error { return nil }

func expectAnyOrder(*os.File) error { return nil }
