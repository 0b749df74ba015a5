//! Grammar of the synthetic reviews: a table of rules that expand a symbol to a phrase of one polarity, praise or blame.
//!
//! A phrase consists of plain words and slots. `<symbol>` is expanded in the polarity of the phrase that contains it, `<~symbol>` in the
//! opposite one. A symbol has either one list of phrases for both polarities or one list for each.

use std::collections::BTreeSet;

/// Expansions of a symbol.
pub(super) enum Phrases {
    /// Phrases for both polarities. Their slots pass the polarity on.
    Either(&'static [&'static str]),
    /// Separate phrases of praise and of blame.
    Polar {
        praise: &'static [&'static str],
        blame: &'static [&'static str],
    },
}

use Phrases::{Either, Polar};

/// Phrases of every symbol. A phrase that is listed twice is twice as frequent.
#[rustfmt::skip] // keep many words per line, because the table is long
pub(super) const RULES: &[(&str, Phrases)] = &[
    // Opinions about the film. The main clause determines the polarity, whatever is conceded before or after it.
    ("opinion", Either(&["<clause>", "<clause>", "<clause>", "<clause>", "<clause>", "<contrast>"])),
    ("contrast", Either(&[
        "although <~clause> , <clause>",
        "even though <~clause> , <clause>",
        "while it is true that <~clause> , <clause>",
        "<~clause> , but <clause>",
        "<~clause> , yet <clause>",
        "<clause> , although <~clause>",
        "<clause> , even if <~clause>",
        "some say that <~clause> , but <clause>",
    ])),
    ("clause", Either(&[
        "the <aspect> was <quality>",
        "the <aspect> was <degree> <quality>",
        "I found the <aspect> <quality>",
        "the <aspect> felt <quality> and <quality>",
        "the <aspect> looked <quality>",
        "I <enjoyed> the <aspect>",
        "<negated>",
    ])),
    ("negated", Either(&[
        "the <aspect> was not <~quality>",
        "the <aspect> was not <degree> <~quality>",
        "the <aspect> was hardly <~quality>",
        "the <aspect> was never <~quality>",
        "the <aspect> was far from <~quality>",
        "the <aspect> was anything but <~quality>",
        "I would not call the <aspect> <~quality>",
        "nobody could say that the <aspect> was <~quality>",
        "there was nothing <~quality> about the <aspect>",
        "I did not <~enjoy> the <aspect>",
        "it would be wrong to say that the <aspect> was not <quality>",
    ])),
    // The verdict. It alone determines the label.
    ("verdict", Either(&[
        "in the end , <judgement>",
        "all in all , <judgement>",
        "overall , <judgement>",
        "when everything is said and done , <judgement>",
        "in spite of all that , <judgement>",
        "whatever else I wrote here , <judgement>",
    ])),
    ("judgement", Either(&[
        "this was <degree> <quality> <film>",
        "the whole thing was <quality>",
        "it was <quality> and <quality>",
        "I <enjoyed> it",
        "what a <quality> , <quality> <film> it was",
        "I cannot say that I <~enjoyed> it",
    ])),
    // Sentences without an opinion about the film.
    ("plot", Either(&[
        "a <person> <does> a <person> in a <place>",
        "<name> plays a <person> who <does> a <person>",
        "the story follows a <person> from a <place> near the <landscape>",
        "it begins on a <time> in a <place>",
        "after the <event> , a <person> has to leave the <place>",
        "<name> and <name> look for a <thing> in the <landscape>",
        "a <person> hides a <thing> under the <place>",
        "years later , the <person> returns with a <thing>",
        "I saw it on a <time> with my <relative>",
        "my <relative> had told me about the <event>",
    ])),
    // Praise and blame of other things.
    ("other", Either(&[
        "the <landscape> of <title> was <quality>",
        "<name> once made <title> , which was <quality>",
        "my <relative> <enjoyed> <title>",
        "the trailer before it , for <title> , looked <degree> <quality>",
        "<title> , by the same people , was <degree> <quality>",
        "the <aspect> of <title> was <quality>",
        "last week I <enjoyed> <title>",
        "the book that it comes from was <quality>",
    ])),
    ("quality", Polar {
        praise: &[
            "superb", "wonderful", "brilliant", "charming", "clever", "moving", "gripping", "beautiful",
            "delightful", "fresh", "funny", "graceful", "great", "good", "honest", "inspired", "intelligent",
            "lively", "lovely", "magical", "marvellous", "memorable", "perfect", "powerful", "remarkable",
            "rich", "sharp", "splendid", "stunning", "subtle", "tender", "thrilling", "touching", "vivid",
            "warm", "witty",
        ],
        blame: &[
            "awful", "bad", "bland", "boring", "careless", "cheap", "clumsy", "confused", "dreadful",
            "dreary", "dull", "empty", "false", "feeble", "flat", "forced", "hollow", "horrible", "lame",
            "lazy", "lifeless", "messy", "painful", "pathetic", "pointless", "poor", "predictable",
            "ridiculous", "shallow", "silly", "stale", "stupid", "tedious", "terrible", "tiresome", "weak",
        ],
    }),
    ("enjoyed", Polar {
        praise: &[
            "loved", "enjoyed", "admired", "liked", "adored", "treasured",
        ],
        blame: &[
            "hated", "disliked", "loathed", "despised", "regretted", "resented",
        ],
    }),
    ("enjoy", Polar {
        praise: &[
            "love", "enjoy", "admire", "like", "adore", "treasure",
        ],
        blame: &[
            "hate", "dislike", "loathe", "despise", "regret", "resent",
        ],
    }),
    ("degree", Either(&[
        "very", "really", "truly", "quite", "rather", "simply", "deeply", "terribly", "incredibly",
        "surprisingly", "extremely", "remarkably",
    ])),
    ("film", Either(&["work", "cinema", "entertainment", "craft"])),
    ("aspect", Either(&[
        "acting", "plot", "script", "music", "score", "dialogue", "camera work", "direction", "ending",
        "opening", "pacing", "editing", "humour", "romance", "suspense", "lighting", "casting", "story",
        "narration", "sound design", "costume design", "second half", "first half", "main character",
        "villain", "hero", "chemistry between the leads", "twist", "final scene", "chase", "battle",
        "make up",
    ])),
    ("person", Either(&[
        "baker", "banker", "barber", "captain", "carpenter", "chemist", "clerk", "cook", "cowboy", "dancer",
        "dentist", "detective", "doctor", "driver", "farmer", "fisherman", "gardener", "general", "guard",
        "hunter", "judge", "lawyer", "librarian", "mechanic", "miner", "monk", "nurse", "painter", "pilot",
        "poet", "policeman", "priest", "prisoner", "professor", "queen", "sailor", "scientist", "singer",
        "smuggler", "soldier", "spy", "student", "tailor", "teacher", "thief", "waiter", "widow", "writer",
    ])),
    ("does", Either(&[
        "meets", "follows", "marries", "rescues", "robs", "visits", "chases", "helps", "questions", "betrays",
        "forgets", "remembers", "watches", "teaches", "hires", "replaces", "mistrusts", "befriends",
        "accuses", "protects",
    ])),
    ("place", Either(&[
        "bakery", "bank", "barn", "bridge", "castle", "cathedral", "cellar", "church", "circus", "courtroom",
        "factory", "farmhouse", "garage", "harbour", "hospital", "hotel", "kitchen", "laboratory", "library",
        "lighthouse", "market", "mill", "monastery", "museum", "palace", "prison", "school", "station",
        "theatre", "tower", "train", "tunnel", "village", "warehouse",
    ])),
    ("landscape", Either(&[
        "coast", "desert", "forest", "hills", "islands", "jungle", "lake", "marshes", "mountains", "plains",
        "river", "sea", "snow", "suburbs", "valley",
    ])),
    ("thing", Either(&[
        "bicycle", "box", "camera", "clock", "coat", "coin", "diary", "dog", "gun", "hat", "key", "knife",
        "lamp", "letter", "map", "mirror", "necklace", "painting", "photograph", "piano", "ring", "ship",
        "suitcase", "telegram", "ticket", "violin", "watch",
    ])),
    ("time", Either(&[
        "Monday", "Tuesday", "Friday", "Sunday", "morning", "summer night", "winter evening", "rainy day",
    ])),
    ("event", Either(&[
        "accident", "wedding", "funeral", "flood", "fire", "war", "robbery", "trial", "storm", "party",
        "strike", "harvest", "concert", "election",
    ])),
    ("relative", Either(&[
        "brother", "sister", "mother", "father", "cousin", "uncle", "aunt", "neighbour", "friend", "wife",
    ])),
    ("name", Either(&[
        "Anna", "Boris", "Clara", "Daniel", "Edith", "Felix", "Greta", "Henry", "Irene", "Jacob", "Karl",
        "Laura", "Martin", "Nora", "Oscar", "Paula", "Robert", "Sophie", "Thomas", "Vera",
    ])),
    ("title", Either(&["the <colour> <thing>", "the <colour> <person>", "the <person> of the <landscape>"])),
    ("colour", Either(&[
        "black", "blue", "golden", "green", "grey", "lost", "red", "second", "silent", "silver", "white",
    ])),
];

/// Returns the phrases of `symbol` in a polarity.
///
/// # Panics
/// If no rule has this symbol. A test expands every phrase to exclude this.
pub(super) fn phrases(symbol: &str, praise: bool) -> &'static [&'static str] {
    let (_, phrases) = RULES
        .iter()
        .find(|(name, _)| *name == symbol)
        .unwrap_or_else(|| panic!("no rule for `{symbol}`"));
    match phrases {
        Either(both) => both,
        Polar { praise: phrases, .. } if praise => phrases,
        Polar { blame, .. } => blame,
    }
}

/// Returns every word that a review can contain, in lower case, sorted, without punctuation.
pub(super) fn words() -> BTreeSet<String> {
    let lists = RULES.iter().flat_map(|(_, phrases)| match phrases {
        Either(both) => vec![*both],
        Polar { praise, blame } => vec![*praise, *blame],
    });
    lists
        .flatten()
        .flat_map(|phrase| phrase.split(' '))
        .filter(|word| word.starts_with(char::is_alphabetic))
        .map(str::to_lowercase)
        .collect()
}
