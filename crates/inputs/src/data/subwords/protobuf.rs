//! Minimal Protocol Buffers reader for SentencePiece models.

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// Integer, boolean or enum.
    Number(u64),
    /// 32-bit float.
    Float(f32),
    /// Bytes, string or message.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the bytes.
    pub fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Float(_) => Err("expected text, found a number".to_owned()),
        }
    }

    /// Returns the text.
    pub fn text(self) -> Result<&'a str, String> {
        str::from_utf8(self.bytes()?).map_err(|_| "the text is not UTF-8".to_owned())
    }

    /// Returns the number.
    pub fn number(self) -> Result<u64, String> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Float(_) => Err("expected an integer, found text or a float".to_owned()),
        }
    }

    /// Returns the boolean.
    pub fn boolean(self) -> Result<bool, String> {
        Ok(self.number()? != 0)
    }

    /// Returns the float. Fails if it is not finite.
    pub fn float(self) -> Result<f32, String> {
        match self {
            Self::Float(float) if float.is_finite() => Ok(float),
            _ => Err("expected a finite float".to_owned()),
        }
    }
}

/// Iterator over the fields of a message: field number and value.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read_field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    /// Reads a field: the key, then the value.
    fn read_field(&mut self) -> Result<(u64, Value<'a>), String> {
        let key = self.read_varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.read_varint()?),
            1 => {
                let number = self.take(8)?;
                Value::Bytes(number) // A double or fixed64, which SentencePiece models do not use.
            }
            2 => {
                let length = self.read_varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                let (bytes, _) = self.take(4)?.as_chunks::<4>();
                Value::Float(f32::from_le_bytes(bytes[0]))
            }
            other => return Err(format!("a field has the unknown wire type {other}")),
        };
        Ok((key >> 3, value))
    }

    /// Removes `length` bytes from the front.
    fn take(&mut self, length: u64) -> Result<&'a [u8], String> {
        let bytes = self.0;
        let parts = usize::try_from(length)
            .ok()
            .and_then(|length| bytes.split_at_checked(length));
        let (head, rest) =
            parts.ok_or_else(|| format!("a field has {length} bytes, but only {} are left", bytes.len()))?;
        self.0 = rest;
        Ok(head)
    }

    /// Reads a variable-length integer: seven bits per byte, the lowest first.
    fn read_varint(&mut self) -> Result<u64, String> {
        /// Maximum number of bytes of a 64-bit integer.
        const MAX_VARINT_BYTES: usize = 10;
        let mut number = 0;
        for index in 0..MAX_VARINT_BYTES {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("an integer has more than 64 bits".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u64, Value<'_>)>, String> {
        Fields(bytes).collect()
    }

    #[test]
    fn fields_of_every_type_are_read() {
        let bytes = [
            0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f, 0x80, 0x01, 1,
        ];
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Float(1.0)),
            (16, Value::Number(1)),
        ];
        assert_eq!(fields(&bytes).unwrap(), expected);
        assert_eq!(fields(&[0x09, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap().len(), 1);
        assert!(fields(&[]).unwrap().is_empty());
        let largest = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(fields(&largest).unwrap(), [(1, Value::Number(u64::MAX))]);
    }

    #[test]
    fn truncated_and_endless_fields_are_errors() {
        let endless: &[u8] = &[0xff; 11];
        for bytes in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x12, 3, 1, 2],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x1d, 1, 2, 3],
            &[0x0b],
            &[0x0f],
            endless,
        ] {
            assert!(fields(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn wrong_value_type_is_an_error() {
        assert!(Value::Number(1).text().is_err());
        assert!(Value::Bytes(&[0xff]).text().is_err());
        assert!(Value::Bytes(b"1").number().is_err());
        assert!(Value::Float(f32::NAN).float().is_err());
        assert!(Value::Number(1).float().is_err());
    }
}
