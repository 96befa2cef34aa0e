package frame

import (
	"fmt"
	"strings"
)

const (
	crcPolynomial = 0x1021
	crcStart      = 0xFFFF
)

var crcTable = buildTable()

func buildTable() [256]uint16 {
	var table [256]uint16
	for i := range table {
		value := uint16(i) << 8
		for bit := 0; bit < 8; bit++ {
			if value&0x8000 != 0 {
				value = value<<1 ^ crcPolynomial
			} else {
				value <<= 1
			}
		}
		table[i] = value
	}
	return table
}

func crc16(data string) uint16 {
	sum := uint16(crcStart)
	for i := 0; i < len(data); i++ {
		sum = sum<<8 ^ crcTable[byte(sum>>8)^data[i]]
	}
	return sum
}

func trailer(body string) string {
	return fmt.Sprintf("%04X", crc16(body))
}

func verifyTrailer(line string) error {
	cut := strings.LastIndexByte(line, ';')
	if cut < 0 || len(line)-cut != 5 {
		return ErrTrailer
	}
	if trailer(line[:cut+1]) != line[cut+1:] {
		return ErrTrailer
	}
	return nil
}
