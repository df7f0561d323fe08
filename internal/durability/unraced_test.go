//go:build !race

package durability

const raced = false
