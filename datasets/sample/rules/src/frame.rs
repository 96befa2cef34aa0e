//! Lines that probes send, see `docs/wire-format.md`.

use crate::RuleError;

const POLYNOMIAL: u16 = 0x1021;

/// One measurement of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub probe: String,
    pub sequence: u16,
    pub taken: i64,
    pub milli_c: i32,
    pub battery: u8,
}

/// Reads the current form of a line; the previous form never gets this far.
pub fn parse_reading(line: &str) -> Result<Reading, RuleError> {
    let body = check_seal(line.trim_end())?;
    let mut fields = body.trim_end_matches(';').split(';');
    if fields.next() != Some("LW2") {
        return Err(fault("prefix", line));
    }
    let probe = fields.next().unwrap_or_default();
    if !(4..=16).contains(&probe.len()) {
        return Err(fault("probe", probe));
    }
    let reading = Reading {
        probe: probe.to_owned(),
        sequence: number("sequence", fields.next())?,
        taken: number("taken", fields.next())?,
        milli_c: number("millidegrees", fields.next())?,
        battery: number("battery", fields.next())?,
    };
    if reading.battery > 100 {
        return Err(fault("battery", &reading.battery.to_string()));
    }
    match fields.next() {
        None => Ok(reading),
        Some(extra) => Err(fault("field count", extra)),
    }
}

fn number<T: std::str::FromStr>(field: &'static str, text: Option<&str>) -> Result<T, RuleError> {
    let text = text.ok_or_else(|| fault(field, ""))?;
    text.parse().map_err(|_| fault(field, text))
}

fn fault(field: &'static str, text: &str) -> RuleError {
    RuleError::Frame { field, text: text.to_owned() }
}

/// Appends the trailer to a body that ends with a semicolon.
pub fn seal(body: &str) -> String {
    format!("{body}{:04X}", crc16(body.as_bytes()))
}

/// Returns the body of a line if its trailer is right.
pub fn check_seal(line: &str) -> Result<&str, RuleError> {
    let cut = line.rfind(';').ok_or_else(|| fault("trailer", line))?;
    let (body, found) = line.split_at(cut + 1);
    let expected = crc16(body.as_bytes());
    if found.len() == 4 && u16::from_str_radix(found, 16) == Ok(expected) {
        Ok(body)
    } else {
        Err(RuleError::Trailer { expected, found: found.to_owned() })
    }
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |sum, &byte| {
        (0..8).fold(sum ^ (u16::from(byte) << 8), |value, _| {
            if value & 0x8000 != 0 {
                (value << 1) ^ POLYNOMIAL
            } else {
                value << 1
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sum() {
        assert_eq!(crc16(b"123456789"), 0x29B1);
    }

    #[test]
    fn sealed_line_is_read() {
        let line = seal("LW2;pass-03;9;1700000000;64500;70;");
        let reading = parse_reading(&line).unwrap();
        assert_eq!((reading.sequence, reading.milli_c), (9, 64_500));
    }

    #[test]
    fn missing_field_is_named() {
        let line = seal("LW2;pass-03;9;1700000000;");
        assert_eq!(
            parse_reading(&line),
            Err(RuleError::Frame { field: "millidegrees", text: String::new() })
        );
    }
}
