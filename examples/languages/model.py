"""Which language is a text in? A model of 97 languages that comes with the package py3langid (pip install 'eddyline[examples]').

One load takes a moment, so it is done once per process; one text takes some tens of microseconds, many times what comparing
columns does. Every query that asks shares the answer.
"""

import pyarrow as pa

import eddyline


def load():
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@eddyline.udf(returns="string", takes=["string"], setup=load, batch=1024, cost=5e-5)
def language(model, texts: pa.Array) -> pa.Array:
    """The language a text is most likely in, such as 'de'; NULL for NULL."""
    return pa.array([None if text is None else model.classify(text)[0] for text in texts.to_pylist()])


@eddyline.udf(returns="double", takes=["string"], setup=load, batch=1024, cost=5e-5)
def certainty(model, texts: pa.Array) -> pa.Array:
    """How sure the model is, 0 to 1."""
    return pa.array(
        [None if text is None else float(model.classify(text)[1]) for text in texts.to_pylist()], pa.float64()
    )
