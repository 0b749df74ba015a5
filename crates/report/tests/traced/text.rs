//! Texts of pages and their numbers.

/// A printed number.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    /// Value as printed, in its unit.
    pub value: f64,
    /// Half a unit in the last printed digit.
    pub half: f64,
    /// Unit after the number; empty without a unit.
    pub unit: &'static str,
    /// `true` without decimals and without an exponent.
    pub is_integer: bool,
    /// Start and end in the text, in bytes.
    pub start: usize,
    pub end: usize,
}

/// Units with their dimension and their factor, longer ones first.
pub const UNITS: [(&str, &str, f64); 19] = [
    ("M values/s", "values/s", 1e-6),
    ("samples/s", "samples/s", 1.0),
    ("TFLOP/s", "flop/s", 1e-12),
    ("GFLOP/s", "flop/s", 1e-9),
    ("tokens/s", "tokens/s", 1.0),
    ("points", "share", 100.0),
    ("GB/s", "bytes/s", 1e-9),
    ("min", "s", 1.0 / 60.0),
    ("GB", "bytes", 1e-9),
    ("MB", "bytes", 1e-6),
    ("kJ", "J", 1e-3),
    ("ms", "s", 1e3),
    ("µs", "s", 1e6),
    ("ULP", "ulp", 1.0),
    ("J", "J", 1.0),
    ("W", "W", 1.0),
    ("s", "s", 1.0),
    ("%", "share", 100.0),
    ("×", "ratio", 1.0),
];

fn unit_at(rest: &str) -> Option<&'static str> {
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let found = UNITS.iter().find(|(unit, ..)| {
        let after = rest.strip_prefix(unit);
        !unit.is_empty() && after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
    });
    found.map(|(unit, ..)| *unit)
}

fn superscripts(text: &str) -> (Option<i32>, usize) {
    let digit = |c: char| match c {
        '⁻' => Some('-'),
        '⁰' => Some('0'),
        '¹' => Some('1'),
        '²' => Some('2'),
        '³' => Some('3'),
        '⁴'..='⁹' => char::from_digit(c as u32 - 0x2070, 10),
        _ => None,
    };
    let digits: String = text.chars().map_while(digit).collect();
    let length = text
        .chars()
        .take(digits.chars().count())
        .map(char::len_utf8)
        .sum();
    (digits.parse().ok(), length)
}

/// Returns the numbers of a text. Digits within words are not numbers. Both ends of a range have the unit of its second end.
pub fn numbers(text: &str) -> Vec<Number> {
    let mut found: Vec<Number> = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(|c: char| c.is_ascii_digit()) {
        let start = at + offset;
        let body = text[start..].find(|c: char| !(c.is_ascii_digit() || c == ',' || c == '.'));
        let mut end = body.map_or(text.len(), |length| start + length);
        while text[start..end].ends_with([',', '.']) {
            end -= 1;
        }
        at = end;
        let before = text[..start].chars().next_back();
        let word = |c: char| c.is_alphabetic() || c == '_';
        let is_word = before.is_some_and(word) || text[end..].starts_with(word);
        let digits = text[start..end].replace(',', "");
        let Ok(mut value) = digits.parse::<f64>() else {
            continue;
        };
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let mut half = 0.5 * 10f64.powi(-(decimals as i32));
        let mut exponent = None;
        if let Some(rest) = text[end..].strip_prefix("×10") {
            let (power, length) = superscripts(rest);
            exponent = power;
            if let Some(power) = power {
                (value, half) = (value * 10f64.powi(power), half * 10f64.powi(power));
                end += "×10".len() + length;
                at = end;
            }
        }
        let sign = text[..start].chars().next_back();
        let is_minus = |c: char| {
            let ahead = text[..start - c.len_utf8()].chars().next_back();
            c == '−' || (c == '-' && !ahead.is_some_and(char::is_alphanumeric))
        };
        if sign.is_some_and(|c| matches!(c, '−' | '-') && is_minus(c)) {
            value = -value;
        }
        let unit = unit_at(&text[end..]).unwrap_or("");
        let joined = found.last().is_some_and(|last: &Number| {
            let between = text[last.end..start].trim_end_matches(['−', '+']);
            last.unit.is_empty() && matches!(between, "–" | " to " | " ± ")
        });
        if let (true, Some(last)) = (joined, found.last_mut()) {
            last.unit = unit;
        }
        if !is_word {
            let is_integer = decimals == 0 && exponent.is_none();
            found.push(Number {
                value,
                half,
                unit,
                is_integer,
                start,
                end,
            });
        }
    }
    found
}

/// Replaces the character references of HTML and the escapes of Markdown by their characters.
pub fn decoded(text: &str) -> String {
    let references = [
        ("<!-- -->", ""),
        ("&#x2f;", "/"),
        ("&#x27;", "'"),
        ("&#58;", ":"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
        ("\\", ""),
    ];
    references
        .iter()
        .fold(text.to_owned(), |text, (reference, character)| {
            text.replace(reference, character)
        })
}

/// Removes the elements that begin with `start` and end with `end`.
pub fn without(page: &str, start: &str, end: &str) -> String {
    let mut kept = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(start) {
        kept.push_str(before);
        rest = after.split_once(end).expect("the element ends").1;
    }
    kept + rest
}

/// Returns the texts of the block elements of a page. Fields of a row and small texts are separated by ` · `.
pub fn blocks(page: &str) -> Vec<String> {
    const INLINE: [&str; 11] = [
        "a", "b", "button", "code", "em", "span", "strong", "small", "td", "th", "abbr",
    ];
    let mut blocks = vec![String::new()];
    let page = page.replace("\n", " ");
    for part in page.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or((part, ""));
        let name = tag
            .trim_start_matches('/')
            .split([' ', '\n'])
            .next()
            .unwrap_or_default();
        let block = blocks.last_mut().expect("never empty");
        match name {
            "small" | "td" | "th" => block.push_str(" · "),
            "text" if is_tick(tag, text) => continue,
            name if INLINE.contains(&name) => {}
            _ => blocks.push(String::new()),
        }
        blocks.last_mut().expect("never empty").push_str(text);
    }
    let texts = blocks.iter().map(|block| decoded(block));
    let texts = texts.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let texts = texts.map(|text| text.replace("· ·", "·").replace("· ·", "·"));
    texts.filter(|text| !text.is_empty()).collect()
}

/// Returns `true` for the number of an axis: a small text that is not bold and contains only a number.
fn is_tick(tag: &str, text: &str) -> bool {
    /// The view box has four units per pixel; the numbers of axes have 11 or 11.5 pixels.
    const SIZES: [&str; 2] = ["font-size=\"44\"", "font-size=\"46\""];
    let is_small = SIZES.iter().any(|size| tag.contains(size)) && !tag.contains("font-weight");
    let number = text.trim().split(' ').next().unwrap_or_default();
    is_small && number.starts_with(|c: char| c.is_ascii_digit())
}
